"""How latencies of a range are spread: shares by bins of equal ratio, drawn on a log axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from dashboard import formats
from dashboard.charts import short
from dashboard.exact_latency import LEVELS
from dashboard.request_data import Asked, Level
from stallscope.histogram import GAMMA
from stallscope.units import US_PER_MS

HEIGHT = 210
_BUCKETS_PER_BIN = 10  # of the rollups, which hold 2 %: a bin reaches 22 % further than the last
_FONT = 12
_FEWEST_TICKS = 3
_FACTORS: tuple[tuple[float, ...], ...] = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))
_MARK_ROWS = 3


@dataclass(frozen=True, slots=True)
class Outline:
    """One distribution of a chart.

    Attributes:
        label: Of what.
        bins: Observations by bin; bin n holds what is longer than its edge n.
        quantiles: (name, microseconds) to be marked.
    """

    label: str
    bins: Mapping[int, int]
    quantiles: tuple[tuple[str, float], ...]

    @property
    def total(self) -> int:
        """How many were observed."""
        return sum(self.bins.values())


@dataclass(frozen=True, slots=True)
class Spread:
    """What one chart shows.

    Attributes:
        key: Stable name.
        title: What is measured.
        aside: From what, and how many.
        outlines: Distributions on one axis.
        reason: Why there is nothing to draw; empty when there is.
    """

    key: str
    title: str
    aside: str
    outlines: tuple[Outline, ...] = ()
    reason: str = ""


def itl_spread(
    connection: duckdb.DuckDBPyConnection, asked: Asked, levels: Sequence[Level]
) -> Spread:
    """Return how inter-token latency is spread, from the histograms of the best exact levels.

    Args:
        connection: Sees the itl table of the range.
        asked: What the reader wants to see; class and route are not known to the histograms.
        levels: Levels of the engines.
    """
    title = "Inter-token latency, per output"
    best = [level for level in levels if level.is_best and level.level != "scrape"]
    if not best:
        what = "known as the engine's own buckets only" if levels else "nothing was measured"
        return Spread("itl", title, "", reason=f"No pause is known one by one: {what}.")
    chosen = ", ".join(f"({level.engine:d}, '{level.level}')" for level in best)
    source = (
        f"SELECT bucket // {_BUCKETS_PER_BIN} AS bin, bucket_middle_us(bucket) AS us, "
        f"sum(observations) AS n FROM {asked.span.itl_source()} "
        "WHERE wall_us >= $since AND wall_us < $until AND bucket > 0 "
        f"AND (engine, level) IN ({chosen}) GROUP BY ALL"
    )
    outline = _outline(connection, "", source, asked, (0.5, 0.99, 0.999))
    kinds = formats.joined(sorted({LEVELS[level.level] for level in best}))
    whole = ", all classes and routes" if asked.context or asked.route else ""
    aside = f"{formats.count(outline.total, 'pause')}, from {kinds}{whole}"
    return Spread("itl", title, aside, (outline,))


def request_spread(
    connection: duckdb.DuckDBPyConnection, asked: Asked, key: str, title: str, names: Sequence[str]
) -> Spread:
    """Return how figures of the requests in the temporary table ``ended`` are spread.

    Args:
        connection: Sees ``ended``.
        asked: What the reader wants to see.
        key: Stable name of the chart.
        title: What is measured.
        names: Columns of ``ended``, the most important first.
    """
    drawn = [_of_values(connection, asked, name, "ended", "true") for name in names]
    outlines = [outline for outline in drawn if outline.bins]
    if not outlines:
        return Spread(key, title, "", reason=_WHY_NOT[key])
    aside = formats.count(outlines[0].total, "request")
    if outlines[1:]:
        aside += f"; thin line: {formats.joined([outline.label for outline in outlines[1:]])}"
    return Spread(key, title, aside, tuple(outlines))


def first_token_spread(connection: duckdb.DuckDBPyConnection, asked: Asked) -> Spread:
    """Return how time to first token is spread as the plugin tells it, of all classes and routes.

    Args:
        connection: Sees first_token.
        asked: What the reader wants to see.
    """
    engine = "true" if asked.engine is None else f"engine = {asked.engine.id:d}"
    within = f"wall_us >= $since AND wall_us < $until AND {engine}"
    outline = _of_values(connection, asked, "ttft_us", "first_token", within)
    if not outline.bins:
        return Spread("ttft", TTFT, "", reason=_WHY_NOT["ttft"])
    aside = f"{formats.count(outline.total, 'first token')}, queue inside, from {LEVELS['step']}"
    return Spread("ttft", TTFT, aside, (outline,))


def _of_values(
    connection: duckdb.DuckDBPyConnection, asked: Asked, name: str, table: str, only: str
) -> Outline:
    """Return the distribution of a column."""
    source = (
        f"SELECT CAST(ceil(ln({name}) / ln(1.02)) AS BIGINT) // {_BUCKETS_PER_BIN} AS bin, "
        f"{name} AS us, count(*) AS n FROM {table} WHERE {name} > 0 AND {only} GROUP BY ALL"
    )
    return _outline(connection, _LABELS[name], source, asked, (0.5, 0.99))


TTFT = "Time to first token"
_LABELS = {
    "ttft_us": "queue inside",
    "ttft_without_queue_us": "without the queue",
    "tpot_us": "",
}
_WHY_NOT = {
    "ttft": "Time to first token needs the plugin, the middleware or traces.",
    "tpot": "Time per token needs requests whose tokens are counted.",
}


def _outline(
    connection: duckdb.DuckDBPyConnection,
    label: str,
    source: str,
    asked: Asked,
    quantiles: Sequence[float],
) -> Outline:
    """Return the distribution of (bin, us, n) rows.

    The q-quantile is the value of rank ceil(q n), as everywhere.
    """
    parameters = (
        {name: value for name, value in asked.bounds.items() if name != "engine"}
        if "$since" in source
        else {}
    )
    found = connection.execute(
        f"WITH part AS ({source}) "
        "SELECT CAST(bin AS BIGINT), CAST(sum(n) AS BIGINT) FROM part GROUP BY bin",
        parameters,
    ).fetchall()
    ranked = connection.execute(
        f"WITH part AS ({source}), ranked AS (SELECT us, sum(n) OVER (ORDER BY us) AS seen, "
        "sum(n) OVER () AS total FROM part), wanted AS (SELECT unnest("
        f"{list(quantiles)!r}) AS q) SELECT q, min(us) FROM ranked CROSS JOIN wanted "
        "WHERE seen >= greatest(1, ceil(q * total)) GROUP BY q ORDER BY q",
        parameters,
    ).fetchall()
    marks = tuple((f"p{formats.number(float(q) * 100)}", float(us)) for q, us in ranked)
    return Outline(label, dict(found), marks)


def _edge_ms(place: int) -> float:
    """Return the lower edge of a bin in milliseconds."""
    return float(GAMMA ** (_BUCKETS_PER_BIN * place)) / US_PER_MS


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
