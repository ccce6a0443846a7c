"""Quantiles of latency as the lake knows them: an exact figure, or an interval, or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb


@dataclass(frozen=True, slots=True)
class Interval:
    """What is known of one quantile of one engine.

    Attributes:
        lower_us: It is larger than this; 0 when there is no lower limit.
        upper_us: It is at most this; None when it lies above the engine's highest bucket.
        observations: How many it is taken from.
        level: ``scrape`` for the engine's own buckets, else ``step`` or ``gap``.
        value_us: The figure to quote, wrong by at most 1 %; None at level scrape.
        note: What to know before quoting it, or None.
    """

    lower_us: float
    upper_us: float | None
    observations: int
    level: str = "scrape"
    value_us: float | None = None
    note: str | None = None


Key = tuple[int, str, float]
"""Engine id, family, quantile."""


def scraped_quantiles(
    connection: duckdb.DuckDBPyConnection,
    families: Iterable[str],
    quantiles: Iterable[float],
    since_us: int,
    until_us: int,
    source: str,
) -> dict[Key, Interval]:
    """Return quantiles per engine and family over a whole range; engines without requests lack.

    Args:
        connection: Sees ``source`` and the module histogram_quantile.
        families: Families of engine_histogram.
        quantiles: 0 to 1.
        since_us: First moment.
        until_us: Moment after the last one.
        source: ``engine_histogram`` or ``engine_histogram_1m``.
    """
    found = connection.execute(
        "SELECT engine, family, quantile, lower_bound, upper_bound, observations, note "
        "FROM histogram_quantile($families, $quantiles, $since, $until, source := $source)",
        {
            "families": list(families),
            "quantiles": list(quantiles),
            "since": since_us,
            "until": until_us,
            "source": source,
        },
    ).fetchall()
    return {
        (engine, family, quantile): Interval(lower, upper, observations, note=note)
        for engine, family, quantile, lower, upper, observations, note in found
    }


def exact_itl(
    connection: duckdb.DuckDBPyConnection,
    quantiles: Iterable[float],
    since_us: int,
    until_us: int,
    source: str,
) -> dict[Key, Interval]:
    """Return inter-token latency per engine from its best exact level, where that covers the range.

    An engine whose tap came or went within the range lacks: half a range has no tail of the whole.

    Args:
        connection: Sees ``source`` and the module itl_quantile.
        quantiles: 0 to 1.
        since_us: First moment.
        until_us: Moment after the last one.
        source: ``itl_1s``, ``itl_10s`` or ``itl_60s``.
    """
    found = connection.execute(
        "SELECT engine, level, quantile, lower_us, upper_us, value_us, observations "
        "FROM itl_per_output($quantiles, $since, $until, source := $source) "
        "WHERE level <> 'scrape'",
        {"quantiles": list(quantiles), "since": since_us, "until": until_us, "source": source},
    ).fetchall()
    return {
        (engine, "itl_us", quantile): Interval(lower, upper, observations, level, value)
        for engine, level, quantile, lower, upper, value, observations in found
    }


def exact_ttft(
    connection: duckdb.DuckDBPyConnection,
    quantiles: Iterable[float],
    since_us: int,
    until_us: int,
) -> dict[Key, Interval]:
    """Return time to first token per engine as its plugin measured it, where that covers the range.

    Args:
        connection: Sees first_token and itl_1s, and the modules itl_quantile and ttft_quantile.
        quantiles: 0 to 1.
        since_us: First moment.
        until_us: Moment after the last one.
    """
    found = connection.execute(
        "SELECT engine, quantile, value_us, observations FROM ttft_quantile($quantiles, $since, "
        "$until) SEMI JOIN (SELECT engine FROM itl_levels($since, $until) "
        "WHERE level = 'step' AND is_enough) USING (engine)",
        {"quantiles": list(quantiles), "since": since_us, "until": until_us},
    ).fetchall()
    return {
        (engine, "ttft_us", quantile): Interval(value, value, observations, "step", float(value))
        for engine, quantile, value, observations in found
    }
