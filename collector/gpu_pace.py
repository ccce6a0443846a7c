"""How often the driver is asked: as set, more often on request, less often while it is slow.

Polling slows work where the driver takes locks (Syllo/nvtop#365, NVIDIA/dcgm-exporter#227).
"""

from __future__ import annotations

from stallscope.units import US_PER_MS, US_PER_SECOND

BURST_US = 200 * US_PER_MS
"""Interval of a burst. GPM wants more than 100 ms (NVIDIA/DCGM#310), throughput blocks for 42."""

_COSTLY_RATIO = 0.10
_CHEAP_RATIO = 0.05
_CALM_POLLS = 5
_SLOWEST_US = 10 * US_PER_SECOND


class GpuPace:
    """The interval of one source.

    Args:
        usual_us: As set.
    """

    def __init__(self, usual_us: int) -> None:
        self._usual_us = usual_us
        self._least_us = 0
        self._costly_us = 0
        self._calm_polls = 0

    def interval_us(self, *, is_burst: bool) -> int:
        """Return the interval in force."""
        return max(self._wanted_us(is_burst=is_burst), self._least_us)

    def note(self, driver_us: int, *, is_burst: bool) -> None:
        """Take note of what one poll cost.

        The interval doubles when the driver was kept busy for more than a tenth of it, and is
        halved again after a few polls that would be cheap at half of it.

        Args:
            driver_us: The longest time that the poll kept the driver busy for one GPU.
            is_burst: Whether a burst is in force.
        """
        interval_us = self.interval_us(is_burst=is_burst)
        self._calm_polls += 1
        if driver_us > _COSTLY_RATIO * interval_us:
            self._least_us = max(interval_us, min(2 * interval_us, _SLOWEST_US))
            self._costly_us, self._calm_polls = driver_us, 0
        elif driver_us > _CHEAP_RATIO * self._least_us / 2:
            self._calm_polls = 0
        elif self._calm_polls >= _CALM_POLLS:
            self._least_us, self._calm_polls = self._least_us // 2, 0

    def reason(self, *, is_burst: bool) -> str:
        """Return why readings are further apart than wanted; empty when they are not."""
        wanted_us = self._wanted_us(is_burst=is_burst)
        if self._least_us <= wanted_us:
            return ""
        return (
            f"read every {self._least_us / US_PER_SECOND:g} s instead of "
            f"{wanted_us / US_PER_SECOND:g} s: a reading kept the driver busy for "
            f"{self._costly_us // US_PER_MS} ms"
        )

    def _wanted_us(self, *, is_burst: bool) -> int:
        return min(self._usual_us, BURST_US) if is_burst else self._usual_us
