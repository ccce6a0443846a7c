"""What the NVML child says, made up for tests, and a driver that says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from collector.edges.nvml_process import NoAnswerError
from collector.nvml.messages import (
    Flow,
    GpuFacts,
    GpuState,
    Greeting,
    LinkAnswer,
    LinkSample,
    Method,
    StateAnswer,
    StateSample,
    Trouble,
)
from tests.collector.stand_ins import SECOND, WALL, ManualClock

GB = 1_000_000_000

_Sample = TypeVar("_Sample", LinkSample, StateSample)


def facts(index: int = 0, **changes: object) -> GpuFacts:
    """Return a generation 5 card of sixteen lanes with an address of its own."""
    usual = GpuFacts(
        index=index,
        uuid=f"GPU-{index}",
        model="Fictional 9000",
        pci_address=f"0000:{0x1B + index:02x}:00.0",
        driver="580.95.05",
        max_generation=5,
        max_width=16,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]  # a test that misspells fails anyway


def flow(rate: float | None, window_us: int | None = SECOND, *, coverage: float = 1.0) -> Flow:
    """Return one direction with a true counter; no window means no rate."""
    if rate is None or window_us is None:
        return Flow()
    return Flow(int(rate * window_us / SECOND), float(rate), coverage)


def link(
    uuid: str = "GPU-0", rx: float | None = 0.0, tx: float | None = 0.0, **changes: object
) -> LinkSample:
    """Return a sample of one second; rates in bytes/s. A sample has its time from the driver."""
    usual = LinkSample(
        uuid=uuid,
        state=GpuState.OK,
        reason="",
        method=Method.GPM_CUMULATIVE,
        wall_us=WALL,
        mono_us=SECOND,
        window_us=SECOND,
        rx=flow(rx),
        tx=flow(tx),
        generation=5,
        width=16,
        utilisation_ratio=0.5,
        call_us=300,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]  # the same


def state(uuid: str = "GPU-0", **changes: object) -> StateSample:
    """Return a sample of a GPU's state."""
    values = {"sm_clock_mhz": 1980, "power_watts": 312.5, "processes": 1}
    usual = StateSample(
        uuid, GpuState.OK, "", WALL, SECOND, SECOND, values, compute_pids=(4801,), call_us=400
    )
    return replace(usual, **changes)  # type: ignore[arg-type]  # the same


@dataclass
class ScriptedDriver:
    """A driver whose answers are written down; the last of each kind repeats.

    Attributes:
        greeting: What it says first; replace it for a child that was started anew.
        links: Samples of each link answer, or the trouble it has instead.
        states: The same of each state answer.
        clock: Stamps samples, if given.
    """

    greeting: Greeting
    links: list[Sequence[LinkSample] | Trouble] = field(default_factory=list)
    states: list[Sequence[StateSample] | Trouble] = field(default_factory=list)
    clock: ManualClock | None = None
    trouble: Trouble | None = None
    asked: int = 0
    rests: int = 0
    left: int = 0

    def greet(self) -> Greeting:
        """Return what there is."""
        if self.trouble is not None:
            raise NoAnswerError(self.trouble)
        return self.greeting

    def ask_link(self) -> LinkAnswer:
        """Return the next link answer."""
        self.greet()
        self.asked += 1
        samples = _next(self.links)
        return LinkAnswer(None, tuple(map(self._stamp, samples)))

    def ask_state(self) -> StateAnswer:
        """Return the next state answer."""
        self.greet()
        self.asked += 1
        return StateAnswer(None, tuple(_next(self.states)))

    def rest(self) -> None:
        """Count."""
        self.rests += 1

    def leave(self) -> None:
        """Count."""
        self.left += 1

    def _stamp(self, sample: LinkSample) -> LinkSample:
        if self.clock is None:
            return sample
        now = self.clock.now()
        return replace(sample, wall_us=now.wall_us, mono_us=now.mono_us)


def _next(script: list[Sequence[_Sample] | Trouble]) -> Sequence[_Sample]:
    step = script[0] if len(script) == 1 else script.pop(0)
    if isinstance(step, Trouble):
        raise NoAnswerError(step)
    return step


def greeting(*gpus: GpuFacts, expected: int | None = None) -> Greeting:
    """Return a greeting that lists these GPUs."""
    whole = sum(not gpu.parent for gpu in gpus)
    return Greeting(None, "580.95.05", "13.580", whole if expected is None else expected, gpus)
