"""One measured figure and the bar it is held against: printed, never asserted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from lab.report import print_table


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure, repeated.

    Attributes:
        group: Section of the table.
        name: What was measured.
        unit: Unit of the values.
        values: One per repetition; none where it could not be measured.
        bar: Largest value that is good enough; None where there is no bar.
        rival: The rival's figure in the same run, as text; empty where it has none.
        at_least: The bar is a floor, not a ceiling.
        why_not: Why it could not be measured here; there are no values then.
    """

    group: str
    name: str
    unit: str
    values: Sequence[float] = field(default=())
    bar: float | None = None
    rival: str = ""
    at_least: bool = False
    why_not: str = ""

    @property
    def verdict(self) -> str:
        """Return ``ok``, ``MISS`` or nothing; the median is judged."""
        if self.bar is None or not self.values:
            return ""
        middle = median(self.values)
        return "ok" if (middle >= self.bar if self.at_least else middle <= self.bar) else "MISS"

    def cells(self) -> tuple[str, ...]:
        """Return the figure as cells of the table."""
        if not self.values:
            return (self.group, self.name, "not measured", "", "", "", self.why_not)
        bar = "" if self.bar is None else f"{'>=' if self.at_least else '<='} {self.bar:g}"
        low, middle, high = min(self.values), median(self.values), max(self.values)
        spread = f"{low:.4g} .. {high:.4g}" if len(self.values) > 1 else ""
        return (
            self.group,
            self.name,
            f"{middle:.4g} {self.unit}",
            spread,
            bar,
            self.verdict,
            self.rival,
        )


_HEADER = ("", "figure", "median", "min .. max", "bar", "", "rival in the same run")


def print_figures(figures: Sequence[Figure]) -> None:
    """Print figures as a table."""
    print_table(_HEADER, [figure.cells() for figure in figures])
