"""Measuring a link by GPU performance monitoring (GPM), Hopper and later: both ways of it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from collector.edges.nvml_errors import Code, NvmlError
from collector.edges.nvml_gpm import (
    LEAST_INTERVAL_US,
    PCIE_RX_BYTES,
    PCIE_RX_MIB_PER_SECOND,
    PCIE_TX_BYTES,
    PCIE_TX_MIB_PER_SECOND,
    GpmSamples,
)
from collector.nvml.messages import Flow, Method
from collector.nvml.stamping import now, read_stamped
from collector.nvml.ways import FIRST_SAMPLE, NO_VALUE, RESET, Traffic
from stallscope.clock import Instant
from stallscope.units import KIB, US_PER_SECOND

MIB_BYTES = KIB * KIB
_PAUSE_S = 1.1 * LEAST_INTERVAL_US / US_PER_SECOND
_TOO_SOON = "asked within 100 ms of the sample before: GPM needs more time"


class GpmWindow:
    """Takes samples far enough apart.

    Args:
        samples: Two buffers.
    """

    def __init__(self, samples: GpmSamples) -> None:
        self._samples = samples
        self._last_us: int | None = None

    def advance(self) -> tuple[Instant, int | None] | None:
        """Take a sample.

        Returns:
            When, and how long after the one before (None for a first one); None when it is too
            soon, and then the one before stays.

        Raises:
            NvmlError: The driver gave no sample.
        """
        last_us, self._last_us = self._last_us, None
        if last_us is not None and now().mono_us - last_us <= LEAST_INTERVAL_US:
            self._last_us = last_us
            return None
        _, at = read_stamped(self._samples.take)
        self._last_us = at.mono_us
        return at, None if last_us is None else at.mono_us - last_us

    def metrics(self, numbers: Sequence[int]) -> tuple[float | None, ...]:
        """Return metrics of the last window.

        Raises:
            NvmlError: The driver has not got them.
        """
        return self._samples.metrics(numbers)

    def measure_once(self, numbers: Sequence[int]) -> tuple[float, ...]:
        """Take a sample and return metrics, waiting until that is possible.

        Raises:
            NvmlError: The driver has not got them, or marks that they have no value.
        """
        if self._last_us is None:
            self.advance()
        time.sleep(_PAUSE_S)
        self.advance()
        found = self.metrics(numbers)
        values = tuple(value for value in found if value is not None)
        if len(values) < len(found):
            raise NvmlError(Code.NO_DATA, f"GPM metrics {list(numbers)}", NO_VALUE)
        return values

    def forget(self) -> None:
        """Take the next sample for the first."""
        self._last_us = None

    def close(self) -> None:
        """Give back the buffers."""
        self._samples.close()


class GpmRate:
    """Mean rates between two samples, metrics 20 and 21.

    Args:
        window: Takes the samples.
    """

    method = Method.GPM_RATE
    numbers = (PCIE_RX_MIB_PER_SECOND, PCIE_TX_MIB_PER_SECOND)

    def __init__(self, window: GpmWindow) -> None:
        self._window = window

    def start(self) -> None:
        """See whether two samples give rates.

        Raises:
            NvmlError: They do not.
        """
        self._window.measure_once(self.numbers)

    def read(self) -> Traffic:
        """Return what was carried since the sample before."""
        sample = self._window.advance()
        if sample is None:
            return Traffic(now(), reason=_TOO_SOON)
        at, window_us = sample
        if window_us is None:
            return Traffic(at, reason=FIRST_SAMPLE)
        rx, tx = self._window.metrics(self.numbers)
        reason = NO_VALUE if rx is None or tx is None else ""
        return Traffic(at, window_us, _flow_of_rate(rx), _flow_of_rate(tx), reason)

    def forget(self) -> None:
        """Take the next sample for the first."""
        self._window.forget()

    def close(self) -> None:
        """Give back the buffers."""
        self._window.close()


class GpmCumulative:
    """Bytes since reboot at the newer of two samples, metrics 255 and 256.

    Args:
        window: Takes the samples.
    """

    method = Method.GPM_CUMULATIVE
    numbers = (PCIE_RX_BYTES, PCIE_TX_BYTES)

    def __init__(self, window: GpmWindow) -> None:
        self._window = window
        self._before: tuple[float | None, ...] | None = None

    def start(self) -> None:
        """See whether two samples give counts.

        Raises:
            NvmlError: They do not.
        """
        self._before = self._window.measure_once(self.numbers)

    def read(self) -> Traffic:
        """Return what was carried since the sample before."""
        sample = self._window.advance()
        if sample is None:
            return Traffic(now(), reason=_TOO_SOON)
        at, window_us = sample
        before, self._before = self._before, None
        if window_us is None:
            return Traffic(at, reason=FIRST_SAMPLE)
        self._before = self._window.metrics(self.numbers)
        if before is None:
            return Traffic(at, reason=FIRST_SAMPLE)
        rx, tx = (
            _flow_of_counts(old, new, window_us)
            for old, new in zip(before, self._before, strict=True)
        )
        return Traffic(at, window_us, rx, tx, _why_missing(before, self._before))

    def forget(self) -> None:
        """Take the next sample for the first."""
        self._before = None
        self._window.forget()

    def close(self) -> None:
        """Give back the buffers."""
        self._window.close()


def _flow_of_rate(mib_per_second: float | None) -> Flow:
    if mib_per_second is None:
        return Flow()
    return Flow(None, mib_per_second * MIB_BYTES, 1.0)


def _flow_of_counts(before: float | None, after: float | None, window_us: int) -> Flow:
    if before is None or after is None or after < before:
        return Flow()
    size = round(after - before)
    return Flow(size, size * US_PER_SECOND / window_us, 1.0)


def _why_missing(before: Sequence[float | None], after: Sequence[float | None]) -> str:
    if None in {*before, *after}:
        return NO_VALUE
    pairs = zip(before, after, strict=True)
    return RESET if any((new or 0.0) < (old or 0.0) for old, new in pairs) else ""
