"""What a page of metrics says, once it is read."""

from __future__ import annotations

from dataclasses import dataclass, field

from collector.edges.promline import Labels

_CLIPPED = 80


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a page is read.

    Attributes:
        page_bytes: The rest of a longer page is left out.
        line_bytes: A longer line is rejected.
        lines: Lines beyond this many are rejected; this bounds the number of series.
        labels: A series with more labels is rejected.
        rejects: How many rejected lines are kept with their text; all are counted.
    """

    page_bytes: int = 8 * 1024 * 1024
    line_bytes: int = 64 * 1024
    lines: int = 50_000
    labels: int = 64
    rejects: int = 20


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Name and labels. One parser hands out one object per series, so identity is equality.

    Attributes:
        name: Metric name without proxy prefix, name space written with a colon; of a birth, the
            name without ``_created``.
        labels: Sorted by name.
        birth: Whether the line tells when the series was born.
    """

    name: str
    labels: Labels
    birth: bool

    def label(self, name: str) -> str:
        """Return the value of a label, or an empty string where the series has none of the name."""
        for label, value in self.labels:
            if label == name:
                return value
        return ""


@dataclass(frozen=True, slots=True)
class Reject:
    """A line that was refused: its number from 1, why, and its text, cut short."""

    line: int
    reason: str
    text: str


@dataclass(slots=True)
class Page:
    """What a page said.

    Attributes:
        values: Value per series; None for NaN.
        births: When series were born, in seconds since 1970.
        times_us: Timestamps of the series that carry one, wall clock.
        types: TYPE per family.
        samples: Lines with a series that were read, repeated ones included.
        duplicates: Series that stood more than once.
        rejected: Lines that were refused.
        rejects: The first of them.
        partial: The page was cut off.
        open_metrics: The format it was read in.
    """

    values: dict[Series, float | None] = field(default_factory=dict)
    births: dict[Series, float | None] = field(default_factory=dict)
    times_us: dict[Series, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    samples: int = 0
    duplicates: int = 0
    rejected: int = 0
    rejects: list[Reject] = field(default_factory=list)
    partial: bool = False
    open_metrics: bool = False

    def reject(self, line: int, reason: str, text: bytes, most: int) -> None:
        """Count a refused line, and keep it while fewer than ``most`` are kept."""
        self.rejected += 1
        if len(self.rejects) < most:
            clipped = text[:_CLIPPED].decode("utf-8", "replace")
            self.rejects.append(Reject(line, reason, clipped))
