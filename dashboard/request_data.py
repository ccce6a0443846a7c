"""Requests that ended in a range and its longest pauses, read from the lake and never unbounded.

Rows of single tokens may be millions a minute. They are read for short ranges only, and only behind
a floor that the histograms give for nothing.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import duckdb

from dashboard.data import rows
from dashboard.request_rows import ORDERS, Asked, Class, Level, Pause, Request, Stall, Stretch

TABLES = ("request", "token_gap", "engine_step", "first_token", "itl_1s")
MODULES = (
    "itl_quantile",
    "itl_per_token",
    "requests",
    "requests_by_class",
    "api_server_stall",
    "slowest_gaps",
)
AT_MOST = 8
CANDIDATES = 5_000
"""So many of the longest pauses are looked through: all requests of an engine share a slow step."""
_TOGETHER_US = 100_000
FEW_GAPS = 1_000_000
"""Up to so many pauses they are read one by one."""

_Row = TypeVar("_Row")


def read_levels(connection: duckdb.DuckDBPyConnection, asked: Asked) -> list[Level]:
    """Return which levels tell of pauses, of the engines asked for."""
    parameters = {**asked.bounds, "source": asked.span.itl_source()}
    found = (
        f"SELECT {_columns(Level)} "
        "FROM itl_levels($since, $until, source := $source, only_engine := $engine)"
    )
    return _read(connection, Level, found, parameters)


def keep_ended(connection: duckdb.DuckDBPyConnection, asked: Asked) -> None:
    """Put the requests that were asked for into the temporary table ``ended``."""
    connection.execute(
        "CREATE TEMP TABLE ended AS "
        "SELECT * FROM requests($since, $until, only_engine := $engine) "
        "WHERE ($context = '' OR context_class = $context) AND ($route = '' OR route = $route)",
        {**asked.bounds, "context": asked.context, "route": asked.route},
    )


def read_slowest(connection: duckdb.DuckDBPyConnection, asked: Asked) -> list[Request]:
    """Return the slowest of the requests in ``ended``."""
    order = asked.order if asked.order in ORDERS.values() else "e2e_us"
    sql = (
        f"SELECT {_columns(Request)} FROM ended WHERE {order} IS NOT NULL "
        f"ORDER BY {order} DESC, request LIMIT {AT_MOST}"
    )
    return _read(connection, Request, sql, {})


def read_totals(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Return counts and quantiles of the requests in ``ended``."""
    quantiles = ", ".join(
        f"count({name}) AS {name}_known, quantile_disc({name}, 0.5) AS {name}_p50, "
        f"quantile_disc({name}, 0.99) AS {name}_p99"
        for name in ("ttft_us", "ttft_without_queue_us", "tpot_us", "e2e_us")
    )
    (found,) = rows(
        connection,
        "SELECT count(*) AS requests, count(*) FILTER (finish = 'abort') AS aborted, "
        "count(*) FILTER (finish = 'error' OR status >= 400) AS failed, "
        f"sum(output_tokens) AS output_tokens, {quantiles} FROM ended",
    )
    return found


def read_first_tokens(connection: duckdb.DuckDBPyConnection, asked: Asked) -> dict[str, Any]:
    """Return time to first token as the plugin tells it, which knows no single request."""
    (found,) = rows(
        connection,
        "SELECT count(*) AS ttft_us_known, quantile_disc(ttft_us, 0.5) AS ttft_us_p50, "
        "quantile_disc(ttft_us, 0.99) AS ttft_us_p99 FROM first_token "
        "WHERE wall_us >= $since AND wall_us < $until AND ($engine IS NULL OR engine = $engine)",
        asked.bounds,
    )
    return found


def read_routes(connection: duckdb.DuckDBPyConnection, asked: Asked) -> list[str]:
    """Return the routes of the range, those with most requests first."""
    found = connection.execute(
        "SELECT route FROM requests($since, $until, only_engine := $engine) "
        "WHERE route IS NOT NULL GROUP BY route ORDER BY count(*) DESC, route LIMIT 50",
        asked.bounds,
    ).fetchall()
    return [route for (route,) in found]


def read_classes(
    connection: duckdb.DuckDBPyConnection, asked: Asked, *, with_gaps: bool
) -> list[Class]:
    """Return the requests by class and route, whatever class and route were asked for."""
    sql = (
        f"SELECT {_columns(Class)} FROM requests_by_class("
        "$since, $until, only_engine := $engine, with_gaps := $gaps) LIMIT 12"
    )
    return _read(connection, Class, sql, {**asked.bounds, "gaps": with_gaps})


def read_pauses(connection: duckdb.DuckDBPyConnection, asked: Asked) -> list[Pause]:
    """Return the longest pauses of a short range, those that ended together as one.

    They are the longest among the `CANDIDATES` longest of all classes and routes.
    """
    floor_us = _floor_us(connection, asked, CANDIDATES)
    sql = (
        f"SELECT {_columns(Pause)} FROM slowest_gaps($since, $until, at_most := {AT_MOST}, "
        f"floor_us := $floor, together_us := {_TOGETHER_US}, only_engine := $engine, "
        "only_class := $context, only_route := $route)"
    )
    return _read(
        connection,
        Pause,
        sql,
        {
            **asked.bounds,
            "floor": floor_us,
            "context": asked.context or None,
            "route": asked.route or None,
        },
    )


def _floor_us(connection: duckdb.DuckDBPyConnection, asked: Asked, wanted: int) -> int:
    """Return a pause that at least so many chunks exceed, as the histograms know; 0 if few do."""
    found = connection.execute(
        "WITH kept AS (SELECT lower_bucket, sum(observations) AS n FROM itl_1s "
        "WHERE wall_us >= $since AND wall_us < $until AND level = 'gap' "
        "AND ($engine IS NULL OR engine = $engine) GROUP BY ALL), above AS ("
        "SELECT lower_bucket, sum(n) OVER (ORDER BY lower_bucket DESC) AS seen FROM kept) "
        f"SELECT bucket_upper_us(max(lower_bucket)) FROM above WHERE seen >= {wanted:d}",
        asked.bounds,
    ).fetchone()
    # A bucket holds what is longer than its edge, which is rounded: a microsecond keeps all of it.
    return 0 if found is None or found[0] is None else max(0, int(found[0]) - 1)


def read_stretches(connection: duckdb.DuckDBPyConnection, asked: Asked) -> list[Stretch]:
    """Return where in a long range the longest pauses are, from the best exact level per engine."""
    step_us = 10_000_000 if asked.span.itl_source() == "itl_10s" else 60_000_000
    source = asked.span.itl_source()
    sql = (
        f"SELECT wall_us, {step_us} AS step_us, engine, level, "
        "max(bucket_middle_us(bucket)) AS longest_us, "
        "CAST(sum(observations) AS BIGINT) AS observations "
        f"FROM {source} SEMI JOIN (SELECT engine, level FROM itl_levels($since, $until, "
        "source := $source, only_engine := $engine) WHERE is_best AND level <> 'scrape') "
        "USING (engine, level) WHERE wall_us >= $since AND wall_us < $until "
        f"GROUP BY wall_us, engine, level ORDER BY longest_us DESC, wall_us LIMIT {AT_MOST}"
    )
    return _read(connection, Stretch, sql, {**asked.bounds, "source": source})


def read_stalls(connection: duckdb.DuckDBPyConnection, asked: Asked) -> list[Stall]:
    """Return what servers added to pauses, per engine over a whole short range."""
    sql = (
        f"SELECT {_columns(Stall)} FROM api_server_stall("
        "$since, $until, step_us := NULL, only_engine := $engine)"
    )
    return _read(connection, Stall, sql, asked.bounds)


def read_per_token(connection: duckdb.DuckDBPyConnection, asked: Asked) -> dict[int, Any]:
    """Return per engine the p99 per token of a short range, and how many tokens an output has."""
    found = rows(
        connection,
        "SELECT engine, value_us, tokens_per_output "
        "FROM itl_per_token([0.99], $since, $until, only_engine := $engine)",
        asked.bounds,
    )
    return {row["engine"]: row for row in found}


def _columns(kind: type) -> str:
    """Return the columns of a macro that a class has as attributes."""
    return ", ".join(field.name for field in fields(kind))


def _read(
    connection: duckdb.DuckDBPyConnection, kind: type[_Row], sql: str, parameters: dict[str, object]
) -> list[_Row]:
    """Return a small result as objects whose attributes are its columns."""
    return [kind(**row) for row in rows(connection, sql, parameters)]
