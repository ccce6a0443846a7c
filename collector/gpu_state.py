"""Source gpu_state: clocks, throttling, power, temperature, memory and errors of each GPU.

NVML is asked in a child process, shared with source gpu_link. Which processes compute on which GPU
is kept for the topology.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from collector.edges.nvml_process import NoAnswerError
from collector.gpu_driver import GpuDriver, let_go, refuse
from collector.gpu_pace import GpuPace
from collector.gpu_requests import GpuRequests
from collector.gpu_roster import Gpu, GpuRoster, group_reasons
from collector.nvml.messages import GpuFacts, GpuState, StateSample
from collector.source import Machine, NoData, Reading, Row
from stallscope.columns import Kind
from stallscope.schema import table
from stallscope.units import US_PER_SECOND

_LARGEST = {Kind.U16: 2**16 - 1, Kind.U32: 2**32 - 1, Kind.I64: 2**63 - 1}
_KINDS = {column.name: column.kind for column in table("gpu_state").columns}
_UNREACHABLE = frozenset({GpuState.GPU_LOST, GpuState.HUNG})


class GpuStateSource:
    """States of the GPUs.

    Args:
        machine: What may be touched.
        driver: Answers.
        interval_us: Wanted pace.
        requests: What people ask for.
    """

    name = "gpu_state"
    tables = ("gpu_state",)

    def __init__(
        self,
        machine: Machine,
        driver: GpuDriver,
        *,
        interval_us: int = US_PER_SECOND,
        requests: GpuRequests | None = None,
    ) -> None:
        self.deadline_us = 12 * US_PER_SECOND
        self._machine = machine
        self._driver = driver
        self._requests = requests or GpuRequests()
        self._pace = GpuPace(interval_us)
        self._roster = GpuRoster(machine)
        self._pids: Mapping[str, tuple[int, ...]] = {}

    @property
    def interval_us(self) -> int:
        """Wanted pace; it slows down while the driver is slow."""
        return self._pace.interval_us(is_burst=False)

    def read(self) -> Reading | NoData:
        """Return a row per GPU and MIG instance.

        Returns:
            NoData where there is no NVIDIA driver, it is kept from us, or was to be let go of.

        Raises:
            SourceError: The driver failed.
        """
        released = let_go(self._requests, self._machine.clock.now(), self._driver)
        if released is not None:
            return released
        try:
            samples = {sample.uuid: sample for sample in self._driver.ask_state().samples}
            self._roster.update(self._driver.greet())
        except NoAnswerError as error:
            return refuse(error.trouble)
        self._pids = {uuid: sample.compute_pids for uuid, sample in samples.items()}
        # A first sample carries the cost of asking for what turns out not to be there.
        costs = [each.call_us for each in samples.values() if each.window_us is not None]
        self._pace.note(max(costs, default=0), is_burst=False)
        return self._conclude([self._answer_of(gpu, samples) for gpu in self._roster.gpus()])

    def gpus(self) -> Sequence[GpuFacts]:
        """Return what the driver says of the GPUs. Safe from any thread."""
        return [gpu.facts for gpu in self._roster.gpus()]

    def gpu_processes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the processes that compute on each GPU, by its UUID. Safe from any thread."""
        return self._pids

    def close(self) -> None:
        """Let go of the driver."""
        self._driver.leave()

    def _answer_of(self, gpu: Gpu, samples: Mapping[str, StateSample]) -> tuple[Gpu, StateSample]:
        """Return a GPU with its sample, or with one that says why there is none."""
        sample = samples.get(gpu.facts.uuid)
        if sample is None:
            now = self._machine.clock.now()
            state, reason = gpu.explain_silence()
            sample = StateSample(gpu.facts.uuid, state, reason, now.wall_us, now.mono_us)
        return gpu, sample

    def _conclude(self, answers: Sequence[tuple[Gpu, StateSample]]) -> Reading:
        rows = [describe_state(gpu.device, sample) for gpu, sample in answers]
        rejects = sum(_count_refused(sample.values) for _, sample in answers)
        lost = {each.uuid for _, each in answers if each.state in _UNREACHABLE}
        wrong = group_reasons(
            (each.uuid, each.reason) for _, each in answers if each.state != GpuState.OK
        )
        parts = (self._roster.count_seen(lost), wrong, self._pace.reason(is_burst=False))
        return Reading({self.name: rows}, rejects, "; ".join(filter(None, parts)))


def describe_state(device: int, sample: StateSample) -> Row:
    """Return the row of table gpu_state for one sample; values that cannot be are left out."""
    values = {name: fit(name, value) for name, value in sample.values.items() if name in _KINDS}
    return {
        **values,
        "wall_us": sample.wall_us,
        "mono_us": sample.mono_us,
        "device": device,
        "window_us": fit("window_us", sample.window_us),
        "state": sample.state.value,
        "call_us": fit("call_us", sample.call_us),
        "reason": sample.reason or None,
    }


def fit(column: str, value: float | None) -> float | None:
    """Return a value as its column of table gpu_state holds it; None when it cannot be.

    Args:
        column: Which column.
        value: As the driver told it: blanks, NaN and values out of range have been seen.
    """
    if value is None or not math.isfinite(value):
        return None
    largest = _LARGEST.get(_KINDS[column])
    if largest is None:
        return float(value)
    return int(value) if 0 <= value <= largest else None


def _count_refused(values: Mapping[str, float]) -> int:
    return sum(name not in _KINDS or fit(name, value) is None for name, value in values.items())
