"""What the panels component draws: traces on windows, in the unit of their panel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dashboard import formats
from dashboard.ranges import Range, Windows
from stallscope.units import US_PER_SECOND

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Trace:
    """One line, band or layer.

    Attributes:
        label: Its name at the right end.
        high: One value per window: the figure, the largest of the window or the upper edge. None
            where nothing is known, or, of an interval, where there is no upper limit.
        low: The smallest of the window or the lower edge; None for a plain line.
        style: p50, p99, p999, main, second or rest.
        colour: Cause whose colour it wears; empty for ink.
        bold: Whether its name stands out.
        interval: Whether low and high are the edges of what is known, not extremes.
        fill: Opacity of the area between low and high.
        stack: Whether it is piled on the stacked traces before it.
        band_only: Draw the area without its line.
    """

    label: str
    high: Values
    low: Values | None = None
    style: str = "main"
    colour: str = ""
    bold: bool = False
    interval: bool = False
    fill: float = 0.14
    stack: bool = False
    band_only: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """A line across a panel.

    Attributes:
        value: Where, in the panel's unit.
        label: Its name at the right end.
        breach: Fill what of the bold traces lies above it.
    """

    value: float
    label: str
    breach: bool = True


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch of a panel of which nothing is known, and why."""

    since_us: int
    until_us: int
    reason: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        key: Stable name.
        title: What is measured.
        unit: Unit of the axis; stands once in the gutter.
        sub: Of what, for example the engine's name.
        height: Pixels.
        windows: Its x axis.
        traces: What is drawn, the most important last.
        alt: The panel in one sentence, for those who do not see it.
        log: Whether y is logarithmic.
        stepped: Whether a value holds for its whole window.
        top: End of the y axis; 0 to fit the data.
        floor: Smallest end of the y axis, so that noise does not fill the panel.
        missing: The word for a window without a value.
        gaps: Stretches of which nothing is known.
        limits: Lines across it.
        reason: Why there is nothing to draw at all; empty when there is.
    """

    key: str
    title: str
    unit: str
    sub: str
    height: int
    windows: Windows
    traces: Sequence[Trace]
    alt: str
    log: bool = False
    stepped: bool = False
    top: float = 0
    floor: float = 0
    missing: str = "no data"
    gaps: Sequence[Gap] = field(default_factory=tuple)
    limits: Sequence[Limit] = field(default_factory=tuple)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that changed at a moment."""

    at_us: int
    label: str


def figure(
    panels: Sequence[Panel], marks: Sequence[Mark], span: Range, note: str = ""
) -> dict[str, Any]:
    """Return the data of the panels component.

    Args:
        panels: From top to bottom.
        marks: Changes, drawn through all panels.
        span: The x axis of all panels.
        note: A line below them.
    """
    return {
        "range": [_seconds(span.since_us), _seconds(span.until_us)],
        "zoom": [_seconds(span.since_us), _seconds(span.until_us)] if span.zoomed else None,
        "note": note,
        "marks": [{"at": _seconds(mark.at_us), "label": mark.label} for mark in marks],
        "panels": [_panel(panel) for panel in panels],
    }


def window_note(drawn: Sequence[Panel], span: Range) -> str:
    """Return the line below panels: the zone and how long a window is."""
    steps = sorted({panel.windows.step_us for panel in drawn if not panel.reason})
    if not steps:
        return "UTC"
    lengths = formats.joined([formats.duration(step) for step in steps])
    source = "each reading" if span.raw else "rollups"
    return f"UTC, windows of {lengths} from {source}; bands reach from the smallest to the largest."


def _panel(panel: Panel) -> dict[str, Any]:
    """Return a panel as the component reads it."""
    return {
        "key": panel.key,
        "title": panel.title,
        "unit": panel.unit,
        "sub": panel.sub,
        "height": panel.height,
        "log": panel.log,
        "stepped": panel.stepped,
        "max": panel.top,
        "floor": panel.floor,
        "missing": panel.missing,
        "reason": panel.reason,
        "alt": panel.alt,
        "x": {
            "start": _seconds(panel.windows.start_us),
            "step": panel.windows.step_us / US_PER_SECOND,
            "count": panel.windows.count,
        },
        "gaps": [
            {"from": _seconds(g.since_us), "to": _seconds(g.until_us), "reason": g.reason}
            for g in panel.gaps
        ],
        "limits": [
            {"value": limit.value, "label": limit.label, "breach": limit.breach}
            for limit in panel.limits
        ],
        "series": [_trace(trace) for trace in panel.traces],
    }


def _trace(trace: Trace) -> dict[str, Any]:
    """Return a trace as the component reads it."""
    return {
        "label": trace.label,
        "high": list(trace.high),
        "low": None if trace.low is None else list(trace.low),
        "style": trace.style,
        "colour": trace.colour,
        "bold": trace.bold,
        "interval": trace.interval,
        "fill": trace.fill,
        "stack": trace.stack,
        "bandOnly": trace.band_only,
    }


def _seconds(us: int) -> float:
    """Return a moment in seconds, as uPlot counts."""
    return us / US_PER_SECOND


def on_windows(
    windows: Windows,
    wall_us: npt.NDArray[np.int64],
    values: npt.NDArray[np.floating[Any]],
    scale: float = 1.0,
) -> list[float | None]:
    """Return values placed on the windows they belong to, None where there is none.

    Args:
        windows: The x axis.
        wall_us: Begin of each value's window; outside the axis it is left out.
        values: NaN for missing.
        scale: Multiplies into the panel's unit.
    """
    placed = np.full(windows.count, np.nan)
    index = (np.asarray(wall_us, dtype=np.int64) - windows.start_us) // windows.step_us
    inside = (index >= 0) & (index < windows.count)
    placed[index[inside]] = np.asarray(values, dtype=np.float64)[inside] * scale
    return [short(value) for value in placed.tolist()]


def short(value: float | None) -> float | None:
    """Return a value with four significant digits: a fifth is sent for nothing."""
    if value is None or math.isnan(value):
        return None
    if value == 0 or not math.isfinite(value):
        return 0.0 if value == 0 else None
    return round(value, 3 - math.floor(math.log10(abs(value))))


def last_known(values: Values) -> float | None:
    """Return the newest value that is known."""
    return next((value for value in reversed(values) if value is not None), None)


def last_interval(trace: Trace) -> tuple[float, float | None]:
    """Return the newest interval of a trace that has one; (0, None) when there is none.

    An upper edge of None is an answer here: above the highest bucket.
    """
    lows = trace.low or ()
    for low, high in zip(reversed(lows), reversed(trace.high), strict=True):
        if low is not None:
            return low, high
    return 0.0, None


def largest(values: Values) -> float | None:
    """Return the largest known value."""
    return max((value for value in values if value is not None), default=None)


def gaps_of(
    windows: Windows, covered: npt.NDArray[np.bool_], until_us: int, reason: str
) -> list[Gap]:
    """Return the stretches without rows between the begin of the axis and the last row.

    After the last row the chart just ends: whether more will come is said by the freshness above.

    Args:
        windows: The x axis.
        covered: Per window, whether there was a row.
        until_us: End of the range.
        reason: What to say about them.
    """
    if not covered.any():
        return []
    last = int(np.flatnonzero(covered)[-1])
    edges = np.flatnonzero(np.diff(np.concatenate(([True], covered[: last + 1], [True]))))
    return [
        Gap(
            windows.start_us + int(begin) * windows.step_us,
            min(windows.start_us + int(end) * windows.step_us, until_us),
            reason if begin else "nothing recorded before",
        )
        for begin, end in zip(edges[::2], edges[1::2], strict=True)
    ]
