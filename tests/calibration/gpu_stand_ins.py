"""GPUs that answer as a test says, and a tool that measures what a test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from collector.calibration.rates import Measured, MeasureError, Rates
from collector.nvml.messages import (
    Flow,
    GpuFacts,
    GpuState,
    LinkAnswer,
    LinkSample,
    Method,
    StateAnswer,
    StateSample,
)

GPU = GpuFacts(
    index=3,
    uuid="GPU-3f2a",
    model="NVIDIA H100 80GB HBM3",
    pci_address="0000:3b:00.0",
    driver="580.95.05",
    max_generation=5,
    max_width=16,
)
OTHER_GPU = replace(GPU, index=4, uuid="GPU-77aa", pci_address="0000:4c:00.0")
RATES = Rates(rx=55.6e9, tx=57.3e9, rx_together=51.8e9, tx_together=49.1e9)


def link_sample(
    rx: float | None = 0.0,
    tx: float | None = 0.0,
    *,
    link: tuple[int | None, int | None] = (5, 16),
    utilisation: float | None = None,
) -> LinkSample:
    """Return a sample with these rates in bytes per second."""
    return LinkSample(
        uuid=GPU.uuid,
        state=GpuState.OK,
        reason="",
        method=Method.FIELD_COUNTER,
        wall_us=1_796_000_040_000_000,
        mono_us=5_000_000,
        window_us=250_000,
        rx=Flow(bytes_per_second=rx),
        tx=Flow(bytes_per_second=tx),
        generation=link[0],
        width=link[1],
        utilisation_ratio=utilisation,
    )


def state_sample(*pids: int, utilisation: float | None = None, uuid: str = GPU.uuid) -> StateSample:
    """Return the state of a GPU with these compute processes."""
    values = {} if utilisation is None else {"utilisation_ratio": utilisation}
    wall_us = 1_796_000_040_000_000
    return StateSample(uuid, GpuState.OK, "", wall_us, 5_000_000, values=values, compute_pids=pids)


@dataclass
class StandInGpus:
    """Answers link questions in turn, the last one for ever.

    Attributes:
        links: Samples of each answer.
        states: Samples of the state.
        asked: How many link questions there were.
    """

    links: Sequence[Sequence[LinkSample]]
    states: Sequence[StateSample] = ()
    asked: int = 0

    def ask_link(self) -> LinkAnswer:
        samples = self.links[min(self.asked, len(self.links) - 1)]
        self.asked += 1
        return LinkAnswer(samples=tuple(samples))

    def ask_state(self) -> StateAnswer:
        return StateAnswer(samples=tuple(self.states))


@dataclass
class StandInTool:
    """Looks on a few times and measures what it is told to.

    Attributes:
        rates: What comes out; None makes it fail.
        pci_address: Which GPU it says it measured.
        met: UUIDs of the GPUs it measured.
    """

    rates: Rates | None = RATES
    pci_address: str = ""
    label: str = "stand-in"
    seconds: float = 14.0
    met: list[str] = field(default_factory=list)

    def measure(self, gpu: GpuFacts, meanwhile: Callable[[], None]) -> Measured:
        self.met.append(gpu.uuid)
        for _ in range(4):
            meanwhile()
        if self.rates is None:
            raise MeasureError("nothing came out")
        return Measured(self.rates, "nvbandwidth v0.8", self.pci_address)
