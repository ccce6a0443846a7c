"""What NVLink-C2C carries between host and GPU, where PCIe is bypassed."""

from __future__ import annotations

from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import NvmlError, decides
from collector.edges.nvml_gpm import (
    C2C_DATA_RX_MIB_PER_SECOND,
    C2C_DATA_TX_MIB_PER_SECOND,
    C2C_RX_MIB_PER_SECOND,
    C2C_TX_MIB_PER_SECOND,
    GpmSamples,
)
from collector.nvml.gpm import MIB_BYTES, GpmWindow

_DATA = (C2C_DATA_RX_MIB_PER_SECOND, C2C_DATA_TX_MIB_PER_SECOND)
_TOTAL = (C2C_RX_MIB_PER_SECOND, C2C_TX_MIB_PER_SECOND)


class C2cRates:
    """Mean rates from poll to poll.

    Args:
        device: The GPU.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._window: GpmWindow | None = None
        self._refusal: NvmlError | None = None

    def read(self) -> tuple[float | None, float | None]:
        """Return bytes/s to and from the GPU: data, or all there is where data is not told apart.

        None for the first sample, and for one that comes too soon after the one before.

        Raises:
            NvmlError: There is no GPM here, or it has not got these metrics.
        """
        if self._refusal is not None:
            raise self._refusal
        window = self._window or self._open()
        sample = window.advance()
        if sample is None or sample[1] is None:
            return None, None
        rx, tx = self._metrics(window)
        return None if rx is None else rx * MIB_BYTES, None if tx is None else tx * MIB_BYTES

    def forget(self) -> None:
        """Take the next sample for the first."""
        if self._window is not None:
            self._window.forget()

    def close(self) -> None:
        """Give back the buffers."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def _open(self) -> GpmWindow:
        try:
            self._window = GpmWindow(GpmSamples(self._device))
        except NvmlError as error:
            self._refusal = error
            raise
        return self._window

    @staticmethod
    def _metrics(window: GpmWindow) -> tuple[float | None, ...]:
        try:
            return window.metrics(_DATA)
        except NvmlError as error:
            if decides(error.code):
                raise
            return window.metrics(_TOTAL)
