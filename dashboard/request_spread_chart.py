"""Distributions as charts for st.echarts_chart: shares over a log axis, quantiles as lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dashboard import formats
from dashboard.charts import short
from dashboard.request_spread import BUCKETS_PER_BIN, Outline, Spread
from stallscope.histogram import GAMMA
from stallscope.units import US_PER_MS

HEIGHT = 210
_FONT = 12
_FEWEST_TICKS = 3
_FACTORS: tuple[tuple[float, ...], ...] = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))
_MARK_ROWS = 3


def _edge_ms(place: int) -> float:
    """Return the lower edge of a bin in milliseconds."""
    return float(GAMMA ** (BUCKETS_PER_BIN * place)) / US_PER_MS


def chart(spread: Spread, colours: Mapping[str, str]) -> dict[str, Any]:
    """Return the option object of ECharts: shares over milliseconds, quantiles as lines.

    Args:
        spread: What to show.
        colours: Colours of the theme.
    """
    text = {"color": colours["ink3"], "fontSize": _FONT}
    low, high = _ends(spread)
    return {
        "animation": False,
        "grid": {"left": 4, "right": 14, "top": 48, "bottom": 22, "containLabel": True},
        "tooltip": {"trigger": "axis", "confine": True, "axisPointer": {"type": "line"}},
        "xAxis": {
            "type": "log",
            "min": low,
            "max": high,
            "name": "ms",
            "nameLocation": "middle",
            "nameGap": 22,
            "nameTextStyle": text,
            "axisLabel": {**text, "customValues": _ticks(low, high), "formatter": "{value}"},
            "axisTick": {"customValues": _ticks(low, high)},
            "splitLine": {"show": False},
        },
        "yAxis": {
            "type": "value",
            "axisLabel": {**text, "formatter": "{value} %"},
            "splitNumber": 2,
            "splitLine": {"lineStyle": {"color": colours["line2"], "opacity": 0.5}},
        },
        "series": [
            _series(outline, colours, first=place == 0)
            for place, outline in enumerate(spread.outlines)
        ],
    }


def _ends(spread: Spread) -> tuple[float, float]:
    """Return the ends of the x axis in milliseconds, one bin beyond the data."""
    bins = [place for outline in spread.outlines for place in outline.bins]
    return _edge_ms(min(bins) - 1), _edge_ms(max(bins) + 2)


def _ticks(low: float, high: float) -> list[float]:
    """Return readable values between two ends, the sparsest set that has three of them."""
    found = [_between(low, high, factors) for factors in _FACTORS]
    return next((ticks for ticks in found if len(ticks) >= _FEWEST_TICKS), found[-1])


def _between(low: float, high: float, factors: Sequence[float]) -> list[float]:
    """Return the multiples of powers of ten between two ends."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [float(f"{factor}e{decade}") for decade in decades for factor in factors]
    return [value for value in values if low <= value <= high]


def _series(outline: Outline, colours: Mapping[str, str], *, first: bool) -> dict[str, Any]:
    """Return an outline as a stepped line; the first one is filled."""
    ink = colours["ink"] if first else colours["ink3"]
    return {
        "type": "line",
        "name": outline.label or "share, %",
        "data": _corners(outline),
        "step": "start",
        "symbol": "none",
        "lineStyle": {"color": ink, "width": 1.6 if first else 1.2},
        "itemStyle": {"color": ink},
        "areaStyle": {"color": ink, "opacity": 0.14 if first else 0.0},
        "markLine": _marks(outline, ink, colours) if first else {"data": []},
    }


def _corners(outline: Outline) -> list[list[float | None]]:
    """Return (upper edge in milliseconds, per cent) of all bins, with a zero at either end."""
    first, last = min(outline.bins), max(outline.bins)
    return [
        [short(_edge_ms(place + 1)), short(outline.bins.get(place, 0) / outline.total * 100)]
        for place in range(first - 1, last + 2)
    ]


def _marks(outline: Outline, ink: str, colours: Mapping[str, str]) -> dict[str, Any]:
    """Return the quantiles as lines with their names on top, each at a height of its own."""
    return {
        "silent": True,
        "symbol": "none",
        "lineStyle": {"color": ink, "type": "dashed", "width": 1},
        "data": [
            {
                "xAxis": short(us / US_PER_MS),
                "label": {
                    "formatter": f"{name} {formats.number(us / US_PER_MS)}",
                    "color": colours["ink2"],
                    "fontSize": _FONT,
                    "distance": 4 + 13 * (place % _MARK_ROWS),
                },
            }
            for place, (name, us) in enumerate(outline.quantiles)
        ],
    }


def alternative(spread: Spread) -> str:
    """Return a chart in one sentence, for those who do not see it."""
    parts = []
    for outline in spread.outlines:
        figures = formats.joined(
            [f"{name} {formats.latency(us)}" for name, us in outline.quantiles]
        )
        parts.append(f"{outline.label}: {figures}" if outline.label else figures)
    return f"{spread.title}, {spread.aside}. {'. '.join(parts)}."
