"""What people ask of the GPU sources while they run: look often for a while, or let go."""

from __future__ import annotations

import threading

from stallscope.units import US_PER_SECOND

LONGEST_BURST_S = 60
LONGEST_RELEASE_S = 3_600


class GpuRequests:
    """Requests that are in force until their time is up; safe for all threads.

    All times are monotonic microseconds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._burst_until_us = 0
        self._release_until_us = 0

    def burst(self, seconds: float, now_us: int) -> None:
        """Ask for readings at the shortest interval, for so long from now; 0 ends a burst.

        Raises:
            ValueError: Not 0 to 60 seconds.
        """
        until_us = _until(seconds, LONGEST_BURST_S, now_us)
        with self._lock:
            self._burst_until_us = until_us

    def release(self, seconds: float, now_us: int) -> None:
        """Ask to let go of the driver, for so long from now; 0 takes hold of it again.

        Raises:
            ValueError: Not 0 to 3600 seconds.
        """
        until_us = _until(seconds, LONGEST_RELEASE_S, now_us)
        with self._lock:
            self._release_until_us = until_us

    def is_burst(self, now_us: int) -> bool:
        """Return whether a burst is in force."""
        with self._lock:
            return now_us < self._burst_until_us

    def release_left_us(self, now_us: int) -> int:
        """Return for how much longer the driver is let go of; 0 when it is not."""
        with self._lock:
            return max(0, self._release_until_us - now_us)


def _until(seconds: float, longest_s: int, now_us: int) -> int:
    if not 0 <= seconds <= longest_s:  # NaN is refused as well
        msg = f"{seconds:g} seconds: want 0 to {longest_s}"
        raise ValueError(msg)
    return now_us + round(seconds * US_PER_SECOND)
