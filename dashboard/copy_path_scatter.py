"""ITL above its median over a signal of the copy path, as a chart for st.echarts_chart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analytics.copy_contention import Values, aligned
from dashboard import formats
from dashboard.charts import short
from dashboard.copy_path_contention import SATURATION, Contention, Facet, Pair
from dashboard.copy_path_links import BUSY_RATIO
from stallscope.units import US_PER_MS

HEIGHTS = (280, 210)
"""Of the first signal and of the others, in pixels."""
_CAUSES = {"rx": "h2d_copy", "tx": "d2h_copy"}
_FONT = 12


@dataclass(frozen=True, slots=True)
class Points:
    """Dots of a chart: the signal in its unit, ITL above its median in ms, and when ITL was so."""

    x: Values
    y: Values
    wall_us: Values


def scatter(
    contention: Contention, pair: Pair, facet: Facet, colours: Mapping[str, str]
) -> dict[str, Any]:
    """Return the option object of ECharts: one dot per window, and the line of the slope.

    Args:
        contention: The engine.
        pair: The link.
        facet: The signal on the x axis.
        colours: Colours of the theme.
    """
    points = lagged_points(contention, pair, facet)
    later = _later(facet)
    most = {"max": 100} if facet.signal == SATURATION else {}
    return {
        "animation": False,
        "grid": {"left": 8, "right": 16, "top": 26, "bottom": 26, "containLabel": True},
        "tooltip": {"trigger": "item", "confine": True},
        "xAxis": _axis(facet.signal.axis, colours, below=True) | {"min": 0} | most,
        "yAxis": _axis(
            f"{contention.figure} ITL above its median, ms{later}", colours, below=False
        ),
        "series": [_dots(points, pair, facet, colours), *_line(facet, points, colours)],
    }


def lagged_points(contention: Contention, pair: Pair, facet: Facet) -> Points:
    """Return the known windows, ITL shifted by the lag: what the slope was taken from."""
    lag = (facet.relation.lag_us or 0) // contention.step_us
    x, y = aligned(facet.x, pair.excess_us / US_PER_MS, lag)
    _, wall_us = aligned(facet.x, pair.wall_us.astype(np.float64), lag)
    known = ~(np.isnan(x) | np.isnan(y))
    return Points(x[known], y[known], wall_us[known])


def _later(facet: Facet) -> str:
    """Return by how much ITL is shifted in the picture."""
    lag_us = facet.relation.lag_us
    if not lag_us:
        return ""
    return f", {formats.duration(abs(lag_us))} {'later' if lag_us > 0 else 'earlier'}"


def _axis(name: str, colours: Mapping[str, str], *, below: bool) -> dict[str, Any]:
    """Return a value axis, its name below the x axis or above the y axis."""
    text = {"color": colours["ink3"], "fontSize": _FONT}
    return {
        "type": "value",
        "name": name,
        "nameLocation": "middle" if below else "end",
        "nameGap": 26 if below else 10,
        "nameTextStyle": {**text, "align": "center" if below else "left"},
        "axisLabel": text,
        "splitLine": {"lineStyle": {"color": colours["line2"], "opacity": 0.5}},
    }


def _dots(points: Points, pair: Pair, facet: Facet, colours: Mapping[str, str]) -> dict[str, Any]:
    """Return the dots, and the limit where the x axis is saturation."""
    newest_us = int(pair.wall_us[-1])
    dots = [
        [short(x), short(y), formats.clock(int(wall_us), newest_us)]
        for x, y, wall_us in zip(
            points.x.tolist(), points.y.tolist(), points.wall_us.tolist(), strict=True
        )
    ]
    series: dict[str, Any] = {
        "type": "scatter",
        "name": "windows",
        "dimensions": [facet.signal.axis, "ITL above its median, ms", "at"],
        "data": dots,
        "encode": {"x": 0, "y": 1, "tooltip": [0, 1, 2]},
        "symbolSize": 6,
        "itemStyle": {"color": colours[_CAUSES[pair.direction]], "opacity": 0.55},
    }
    if facet.signal == SATURATION:
        limit = {"xAxis": BUSY_RATIO * 100}
        series["markLine"] = {
            "silent": True,
            "symbol": "none",
            "data": [limit],
            "lineStyle": {"color": colours["ink"], "type": "dashed", "width": 1},
            "label": {
                "formatter": formats.percent(BUSY_RATIO),
                "color": colours["ink2"],
                "fontSize": _FONT,
            },
        }
    return series


def _line(facet: Facet, points: Points, colours: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the line of the slope through the medians, none where there is no slope."""
    if facet.relation.slope is None or not len(points.x):
        return []
    slope = facet.relation.slope / US_PER_MS / facet.signal.scale
    ends = [float(points.x.min()), float(points.x.max())]
    middle = float(np.median(points.y - slope * points.x))
    return [
        {
            "type": "line",
            "name": "slope",
            "data": [[short(end), short(middle + slope * end)] for end in ends],
            "symbol": "none",
            "silent": True,
            "tooltip": {"show": False},
            "lineStyle": {"color": colours["ink"], "width": 2},
            "itemStyle": {"color": colours["ink"]},
        }
    ]
