"""Samples of GPU performance monitoring (GPM): two buffers of one GPU that take turns."""

from __future__ import annotations

from collections.abc import Sequence

from collector.edges.nvml import Meter, new_gpm_request
from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import Code, NvmlError
from collector.edges.nvml_values import clean_amount

PCIE_TX_MIB_PER_SECOND = 20
PCIE_RX_MIB_PER_SECOND = 21
C2C_TX_MIB_PER_SECOND = 100
C2C_RX_MIB_PER_SECOND = 101
C2C_DATA_TX_MIB_PER_SECOND = 102
C2C_DATA_RX_MIB_PER_SECOND = 103
PCIE_TX_BYTES = 255  # since reboot, in the nvml.h of CUDA 13.5, absent in that of 12.9
PCIE_RX_BYTES = 256

LEAST_INTERVAL_US = 100_000
"""Samples must be further apart than this (nvml.h); nearer ones gave invalid values (DCGM#310)."""


class GpmSamples:
    """The last two samples of one GPU.

    Args:
        device: The GPU.

    Raises:
        NvmlError: The GPU has no GPM, the library is too old for it, or we may not use it.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        if not device.ask("nvmlGpmQueryDeviceSupport").isSupportedDevice:
            raise NvmlError(Code.NOT_SUPPORTED, "nvmlGpmQueryDeviceSupport", "no GPM on this GPU")
        self._request = new_gpm_request()
        self._older = self._allocate()
        try:
            self._newer = self._allocate()
        except NvmlError:
            self._free(self._older)
            raise

    def take(self) -> None:
        """Take a sample over the older one.

        Raises:
            NvmlError: It failed; both samples are of no use then.
        """
        self._older, self._newer = self._newer, self._older
        self._device.gate.call(
            self._device.meter, "nvmlGpmSampleGet", self._device.handle, self._newer
        )

    def metrics(self, numbers: Sequence[int]) -> tuple[float | None, ...]:
        """Return metrics between the older and the newer sample; None for a mark or no number.

        Raises:
            NvmlError: The call failed, or one of the metrics.
        """
        request = self._request
        request.sample1, request.sample2 = self._older, self._newer
        request.numMetrics = len(numbers)
        for place, number in enumerate(numbers):
            request.metrics[place].metricId = number
        self._device.gate.call(self._device.meter, "nvmlGpmMetricsGet", request)
        return tuple(self._metric(place) for place in range(len(numbers)))

    def close(self) -> None:
        """Give back both buffers."""
        self._free(self._older)
        self._free(self._newer)

    def _metric(self, place: int) -> float | None:
        metric = self._request.metrics[place]
        if metric.nvmlReturn:
            raise NvmlError(metric.nvmlReturn, f"GPM metric {metric.metricId}", "no value")
        return clean_amount(metric.value)

    def _allocate(self) -> object:
        return self._device.gate.call(self._device.meter, "nvmlGpmSampleAlloc")

    def _free(self, sample: object) -> None:
        try:
            self._device.gate.call(Meter(), "nvmlGpmSampleFree", sample)
        except NvmlError:
            return  # the library was shut down meanwhile, and its buffers with it
