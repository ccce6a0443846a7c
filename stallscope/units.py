"""The one place where units are converted.

Inside, times and durations are integer microseconds, sizes integer bytes and ratios 0 to 1.
Base units (seconds, bytes) appear only at exposition and at the edges that read them.
"""

from __future__ import annotations

import math

US_PER_SECOND = 1_000_000
US_PER_MS = 1_000
NS_PER_US = 1_000
SECTOR_BYTES = 512  # /proc/diskstats counts 512-byte sectors whatever the block size (iostats.rst)
KIB = 1_024


def seconds_to_us(seconds: float) -> int:
    """Return seconds as whole microseconds, rounded to nearest.

    Raises:
        ValueError: ``seconds`` is NaN or infinite.
    """
    if not math.isfinite(seconds):
        msg = f"not a finite number of seconds: {seconds}"
        raise ValueError(msg)
    return round(seconds * US_PER_SECOND)


def us_to_seconds(us: int) -> float:
    """Return microseconds as seconds."""
    return us / US_PER_SECOND


def ms_to_us(ms: float) -> float:
    """Return milliseconds as microseconds, fractions kept."""
    return ms * US_PER_MS


def kib_to_bytes(kib: int) -> int:
    """Return KiB, which /proc/meminfo spells ``kB``, as bytes."""
    return kib * KIB


def percent_to_ratio(percent: float) -> float:
    """Return per cent as a ratio of 1."""
    return percent / 100
