"""Which stretch of time a page shows, and from which resolution it is read.

A chart gets at most about 700 windows, two values each. Windows are counted from 1970, so a refresh
a second later shows the same windows and one more, and nothing shimmers.
"""

from __future__ import annotations

from dataclasses import dataclass

from stallscope.units import US_PER_SECOND

CHOICES = {
    "5 min": 300,
    "15 min": 900,
    "1 h": 3_600,
    "6 h": 21_600,
    "24 h": 86_400,
    "7 d": 604_800,
}
"""Ranges to choose from, in seconds."""

RAW_UP_TO_S = 1_800
FINE_UP_TO_S = 21_600
MAX_WINDOWS = 700
_NICE_S = (1, 2, 3, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1_800, 3_600)


@dataclass(frozen=True, slots=True)
class Range:
    """A stretch of time.

    Attributes:
        since_us: First moment, UTC microseconds.
        until_us: Moment after the last one.
        zoomed: Whether the reader picked it by zooming: then it stands still.
    """

    since_us: int
    until_us: int
    zoomed: bool = False

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return (self.until_us - self.since_us) / US_PER_SECOND

    @property
    def raw(self) -> bool:
        """Whether it is short enough to be read row by row."""
        return self.seconds <= RAW_UP_TO_S

    def source(self, table: str) -> str:
        """Return the table to read a signal from: itself, or its rollup per minute."""
        return table if self.raw else f"{table}_1m"

    def itl_source(self) -> str:
        """Return the table to read inter-token latency from."""
        if self.raw:
            return "itl_1s"
        return "itl_10s" if self.seconds <= FINE_UP_TO_S else "itl_60s"

    def windows(self, spacing_us: int = 0) -> Windows:
        """Return the windows of a chart.

        Args:
            spacing_us: Time between two rows of the signal; a shorter window would show holes that
                are none.
        """
        floor_s = 1 if self.raw else 60
        wanted_us = max(
            spacing_us, floor_s * US_PER_SECOND, (self.until_us - self.since_us) / MAX_WINDOWS
        )
        step_us = _nice_at_least(wanted_us)
        start_us = self.since_us - self.since_us % step_us
        return Windows(start_us, step_us, -(-(self.until_us - start_us) // step_us))


@dataclass(frozen=True, slots=True)
class Windows:
    """The x axis of a chart.

    Attributes:
        start_us: Begin of the first window.
        step_us: Length of a window.
        count: How many.
    """

    start_us: int
    step_us: int
    count: int

    @property
    def end_us(self) -> int:
        """End of the last window."""
        return self.start_us + self.count * self.step_us


def _nice_at_least(wanted_us: float) -> int:
    """Return the shortest readable window that is not shorter than wanted."""
    for seconds in _NICE_S:
        if seconds * US_PER_SECOND >= wanted_us:
            return seconds * US_PER_SECOND
    hour_us = _NICE_S[-1] * US_PER_SECOND
    return -(-int(wanted_us) // hour_us) * hour_us


def chosen(choice: str, now_us: int, zoom: tuple[int, int] | None) -> Range:
    """Return the range a reader asked for.

    Args:
        choice: One of `CHOICES`.
        now_us: The present.
        zoom: A stretch picked in a chart, or None.
    """
    if zoom is not None:
        return Range(zoom[0], zoom[1], zoomed=True)
    return Range(now_us - CHOICES[choice] * US_PER_SECOND, now_us)


def read_zoom(since: str | None, until: str | None) -> tuple[int, int] | None:
    """Return a zoom from the two texts of an URL, or None when they make no sense."""
    try:
        zoom = int(since or ""), int(until or "")
    except ValueError:
        return None
    far_us = 1 << 52  # year 2112; beyond it a browser's numbers are no longer whole
    return zoom if 0 <= zoom[0] < zoom[1] <= far_us else None
