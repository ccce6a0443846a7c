"""The factors between units.

Inside, times and durations are integer microseconds, sizes integer bytes and ratios 0 to 1.
Base units (seconds, bytes) appear only at exposition and at the edges that read them.
"""

from __future__ import annotations

US_PER_SECOND = 1_000_000
US_PER_MS = 1_000
NS_PER_US = 1_000
SECTOR_BYTES = 512  # /proc/diskstats counts 512-byte sectors whatever the block size (iostats.rst)
KIB = 1_024


def us_to_seconds(us: int) -> float:
    """Return microseconds as seconds."""
    return us / US_PER_SECOND
