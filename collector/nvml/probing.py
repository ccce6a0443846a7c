"""Finding the best way to measure one GPU's link: each is tried, the first that works is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import Code, NvmlError, decides
from collector.edges.nvml_gpm import GpmSamples
from collector.nvml.field_counter import FieldCounter
from collector.nvml.gpm import GpmCumulative, GpmRate, GpmWindow
from collector.nvml.messages import GpuState, Method, Probe
from collector.nvml.throughput import Throughput
from collector.nvml.ways import Way

WORKS = "works"
_ADMIN_ONLY = (
    "the driver keeps profiling counters for administrators (RmProfilingAdminOnly: 1 in "
    "/proc/driver/nvidia/params): load the module nvidia with "
    "NVreg_RestrictProfilingToAdminUsers=0, or give the collector CAP_SYS_ADMIN"
)


_WORDS: Mapping[int, str] = {
    Code.NOT_SUPPORTED: "not supported by this GPU",
    Code.FUNCTION_NOT_FOUND: "not in this driver",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What came of trying.

    Attributes:
        way: The first that works; None when none does.
        probes: All that were tried, and why they do not work.
        state: OK, or what the lack of any way makes of the link.
    """

    way: Way | None
    probes: tuple[Probe, ...]
    state: GpuState

    @property
    def reason(self) -> str:
        """Why there is no way; empty when there is one."""
        if self.way is not None:
            return ""
        return "; ".join(f"{probe.method}: {probe.outcome}" for probe in self.probes)


class Probing:
    """Tries ways on one GPU.

    Args:
        device: The GPU.
        bytes_per_second: The most that its link can carry; None when unknown.
    """

    def __init__(self, device: Device, bytes_per_second: float | None) -> None:
        self._device = device
        self._bytes_per_second = bytes_per_second

    def find(self, banned: Mapping[Method, str]) -> Found:
        """Return the first way that works, already with a first reading behind it.

        Args:
            banned: Ways that are not to be tried, and why.

        Raises:
            NvmlError: It concerns the whole GPU, or is a fault of ours.
        """
        probes: list[Probe] = []
        codes: set[int] = set()
        for method in Method:
            if method in banned:
                probes.append(Probe(method, banned[method]))
                continue
            try:
                way, cost_us = self._try(method)
            except NvmlError as error:
                if decides(error.code):
                    raise
                probes.append(Probe(method, _outcome(error)))
                codes.add(error.code)
            else:
                probes.append(Probe(method, WORKS, cost_us))
                return Found(way, tuple(probes), GpuState.OK)
        return Found(None, tuple(probes), _state_without(codes, banned))

    def _try(self, method: Method) -> tuple[Way, int]:
        """Return a way that works, and what one reading costs in the driver, in microseconds."""
        way = self._make(method)
        self._device.meter.take()
        try:
            way.start()
        except NvmlError:
            way.close()
            raise
        return way, self._device.meter.take()

    def _make(self, method: Method) -> Way:
        if method is Method.GPM_CUMULATIVE:
            return GpmCumulative(GpmWindow(GpmSamples(self._device)))
        if method is Method.GPM_RATE:
            return GpmRate(GpmWindow(GpmSamples(self._device)))
        if method is Method.FIELD_COUNTER:
            return FieldCounter(self._device, self._bytes_per_second)
        return Throughput(self._device)


def _outcome(error: NvmlError) -> str:
    if error.code == Code.NO_PERMISSION:
        return f"{error}: {_ADMIN_ONLY}"
    return _WORDS.get(error.code) or str(error)


def _state_without(codes: set[int], banned: Mapping[Method, str]) -> GpuState:
    if Code.NO_PERMISSION in codes:
        return GpuState.NO_PERMISSION
    return GpuState.SOURCE_BROKEN if banned else GpuState.UNSUPPORTED
