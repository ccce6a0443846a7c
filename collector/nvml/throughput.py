"""Measuring a link by the driver's own short windows: a look of 20 ms each way per poll."""

from __future__ import annotations

from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import Code, NvmlError
from collector.nvml.messages import Flow, Method
from collector.nvml.stamping import now
from collector.nvml.ways import FIRST_SAMPLE, NO_VALUE, Traffic
from stallscope.units import US_PER_MS

_LOOK_US = 20 * US_PER_MS  # nvml.h: "a byte counter over a 20ms interval"


class Throughput:
    """Looks at each direction for 20 ms, one after the other, and knows nothing of the rest.

    Args:
        device: The GPU.
    """

    method = Method.THROUGHPUT

    def __init__(self, device: Device) -> None:
        self._device = device
        self._last_us: int | None = None

    def start(self) -> None:
        """See whether looking works.

        Raises:
            NvmlError: It does not.
        """
        if None in self._device.pcie_throughput():
            raise NvmlError(Code.NO_DATA, "nvmlDeviceGetPcieThroughput", NO_VALUE)
        self._last_us = now().mono_us

    def read(self) -> Traffic:
        """Return what both looks saw; no true counter, so no bytes."""
        rx, tx = self._device.pcie_throughput()
        at = now()
        last_us, self._last_us = self._last_us, at.mono_us
        if last_us is None:
            return Traffic(at, reason=FIRST_SAMPLE)
        window_us = at.mono_us - last_us
        reason = NO_VALUE if rx is None or tx is None else ""
        return Traffic(at, window_us, _flow(rx, window_us), _flow(tx, window_us), reason)

    def forget(self) -> None:
        """Take the next reading for the first."""
        self._last_us = None

    def close(self) -> None:
        """Nothing is held."""


def _flow(bytes_per_second: float | None, window_us: int) -> Flow:
    if bytes_per_second is None:
        return Flow()
    return Flow(None, bytes_per_second, min(1.0, _LOOK_US / window_us))
