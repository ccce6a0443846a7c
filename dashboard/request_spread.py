"""How latencies of a range are spread: observations by bins of equal ratio, and quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from dashboard import formats
from dashboard.exact_latency import LEVELS
from dashboard.request_rows import Asked, Level

BUCKETS_PER_BIN = 10
"""Of the rollups, which hold 2 %: a bin reaches 22 % further than the one before."""


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
        f"SELECT bucket // {BUCKETS_PER_BIN} AS bin, bucket_middle_us(bucket) AS us, "
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
        f"SELECT CAST(ceil(ln({name}) / ln(1.02)) AS BIGINT) // {BUCKETS_PER_BIN} AS bin, "
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
