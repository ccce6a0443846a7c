"""The present in figures: what the tiles and the first sentence are made of.

Everything here covers the last minute of data, read row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb

from analytics.quantiles import Interval, Key, exact_itl, exact_ttft, scraped_quantiles
from dashboard.data import rows
from dashboard.engines import Engine
from stallscope.units import US_PER_SECOND

MINUTE_US = 60 * US_PER_SECOND
_STUCK_US = 3 * US_PER_SECOND
"""A disk with I/O in flight that completes nothing for this long hangs; one poll says little."""
TABLES = (
    "engine_metrics",
    "engine_histogram",
    "itl_1s",
    "first_token",
    "block_device",
    "host_pressure",
    "source_health",
)
KEPT = {
    "engine_metrics": (
        "wall_us",
        "engine",
        "window_us",
        "flags",
        "running",
        "waiting",
        "kv_usage_ratio",
        "prompt_tokens_delta",
        "cached_device_delta",
        "cached_host_delta",
        "cached_disk_delta",
        "cached_p2p_delta",
        "cached_external_delta",
        "prefix_hits_delta",
        "prefix_queries_delta",
        "external_hits_delta",
        "external_queries_delta",
    ),
    "engine_histogram": ("wall_us", "engine", "family", "bounds", "counts"),
    "itl_1s": ("wall_us", "engine", "level", "bucket", "lower_bucket", "observations"),
    "block_device": (
        "wall_us",
        "device",
        "window_us",
        "reads",
        "writes",
        "read_await_mean_us",
        "write_await_mean_us",
        "queue_mean",
        "in_flight",
        "io_stuck_candidate",
    ),
}
"""Raw tables that the page reads several times, with what it reads of them."""
MODULES = ("histogram_quantile", "itl_quantile", "ttft_quantile", "kv_hits")
FAMILIES = ("itl_us", "ttft_us", "e2e_us")
QUANTILES = (0.5, 0.99)


@dataclass(frozen=True, slots=True)
class EngineNow:
    """An engine in the last minute.

    Attributes:
        engine: Which.
        quantiles: Latencies by (family, quantile); a family without requests lacks.
        running: Requests running at the last scrape, None when the engine does not say.
        waiting: Requests waiting.
        kv_usage_ratio: How full the KV cache is.
        hits: (tier, ratio) of the tiers it counts; ratio None when nothing was asked.
        by_prompt: Whether the ratios are shares of all prompt tokens, and so may be added up.
        flags: Suspicious facts of the last scrape, comma separated; empty when there are none.
    """

    engine: Engine
    quantiles: Mapping[tuple[str, float], Interval]
    running: float | None
    waiting: float | None
    kv_usage_ratio: float | None
    hits: tuple[tuple[str, float | None], ...]
    by_prompt: bool
    flags: str

    @property
    def tail(self) -> Interval | None:
        """The p99 of inter-token latency."""
        return self.quantiles.get(("itl_us", 0.99))


@dataclass(frozen=True, slots=True)
class DiskNow:
    """A disk in the last minute."""

    name: str
    read_us: float | None
    write_us: float | None
    queue: float | None
    in_flight: float | None
    stuck: bool


@dataclass(frozen=True, slots=True)
class Present:
    """The last minute of data.

    Attributes:
        until_us: Its end.
        engines: Engines that were scraped, the longest tail first.
        disks: Disks that were read, the slowest reads first.
        pressure: Shares of time by resource, None where the kernel gives none.
        sources: (source, state, reason) of the newest health row of each.
    """

    until_us: int
    engines: tuple[EngineNow, ...] = ()
    disks: tuple[DiskNow, ...] = ()
    pressure: Mapping[str, float | None] = field(default_factory=dict)
    sources: tuple[tuple[str, str, str], ...] = ()


def read_present(
    connection: duckdb.DuckDBPyConnection,
    engines: list[Engine],
    disks: Mapping[int, str],
    until_us: int,
    span_us: int = MINUTE_US,
) -> Present:
    """Return the last minute before a moment.

    Args:
        connection: Sees the tables and modules above.
        engines: Engines by name.
        disks: Disks by device id.
        until_us: End of the minute.
        span_us: Another length than a minute.
    """
    since_us = until_us - span_us
    return Present(
        until_us=until_us,
        engines=tuple(_engines(connection, engines, since_us, until_us)),
        disks=tuple(_disks(connection, disks, since_us, until_us)),
        pressure=_pressure(connection, since_us, until_us),
        sources=tuple(_sources(connection, since_us, until_us)),
    )


def _engines(
    connection: duckdb.DuckDBPyConnection, engines: list[Engine], since_us: int, until_us: int
) -> list[EngineNow]:
    """Return the engines that were scraped, the longest tail first."""
    gauges = {
        row["engine"]: row
        for row in rows(
            connection,
            # arg_max would pass over a NULL and answer with an older value.
            "SELECT engine, arg_max_null(running, wall_us) AS running, "
            "arg_max_null(waiting, wall_us) AS waiting, "
            "arg_max_null(kv_usage_ratio, wall_us) AS kv, arg_max_null(flags, wall_us) AS flags "
            "FROM engine_metrics WHERE wall_us >= ? AND wall_us < ? GROUP BY engine",
            [since_us, until_us],
        )
    }
    quantiles = {
        **scraped_quantiles(
            connection, FAMILIES, QUANTILES, since_us, until_us, "engine_histogram"
        ),
        **exact_itl(connection, QUANTILES, since_us, until_us, "itl_1s"),
        **exact_ttft(connection, QUANTILES, since_us, until_us),
    }
    hits = rows(
        connection, "SELECT engine, tier, hit_ratio, basis FROM kv_hits(?, ?)", [since_us, until_us]
    )
    found = [
        _engine(engine, gauges[engine.id], quantiles, hits)
        for engine in engines
        if engine.id in gauges
    ]
    return sorted(found, key=lambda now: (-tail_us(now.tail), now.engine.name))


def _engine(
    engine: Engine,
    gauges: Mapping[str, Any],
    quantiles: Mapping[Key, Interval],
    hits: list[dict[str, Any]],
) -> EngineNow:
    """Return one engine."""
    mine = [row for row in hits if row["engine"] == engine.id]
    return EngineNow(
        engine=engine,
        quantiles={key[1:]: known for key, known in quantiles.items() if key[0] == engine.id},
        running=gauges["running"],
        waiting=gauges["waiting"],
        kv_usage_ratio=gauges["kv"],
        hits=tuple((row["tier"], row["hit_ratio"]) for row in mine),
        by_prompt=all(row["basis"] == "prompt tokens" for row in mine),
        flags=gauges["flags"] or "",
    )


def tail_us(tail: Interval | None) -> float:
    """Return what a tail is ranked by: its figure, or the edge it is known to exceed."""
    if tail is None:
        return -1.0
    return tail.value_us if tail.value_us is not None else tail.lower_us


def _disks(
    connection: duckdb.DuckDBPyConnection, names: Mapping[int, str], since_us: int, until_us: int
) -> list[DiskNow]:
    """Return the disks, the slowest reads first; means weigh each I/O once."""
    found = rows(
        connection,
        "SELECT device, sum(read_await_mean_us * reads) / nullif(sum(reads), 0) AS read_us, "
        "sum(write_await_mean_us * writes) / nullif(sum(writes), 0) AS write_us, "
        "avg(queue_mean) AS queue, arg_max_null(in_flight, wall_us) AS in_flight, "
        "bool_and(io_stuck_candidate) FILTER (wall_us >= ?) AS stuck "
        "FROM block_device WHERE wall_us >= ? AND wall_us < ? GROUP BY device",
        [until_us - _STUCK_US, since_us, until_us],
    )
    disks = [
        DiskNow(
            names.get(row["device"], f"disk {row['device']}"),
            row["read_us"],
            row["write_us"],
            row["queue"],
            row["in_flight"],
            bool(row["stuck"]),
        )
        for row in found
    ]
    return sorted(disks, key=lambda disk: (-(disk.read_us or 0.0), disk.name))


def _pressure(
    connection: duckdb.DuckDBPyConnection, since_us: int, until_us: int
) -> Mapping[str, float | None]:
    """Return the mean pressure of the whole host by resource."""
    found = rows(
        connection,
        "SELECT avg(io_some_ratio) AS io, avg(memory_some_ratio) AS memory, "
        "avg(cpu_some_ratio) AS cpu FROM host_pressure "
        "WHERE scope = 'system' AND wall_us >= ? AND wall_us < ?",
        [since_us, until_us],
    )
    return found[0]


def _sources(
    connection: duckdb.DuckDBPyConnection, since_us: int, until_us: int
) -> list[tuple[str, str, str]]:
    """Return what the sources last said of themselves."""
    found = connection.execute(
        "SELECT source, max_by(state, wall_us), max_by(coalesce(reason, ''), wall_us) "
        "FROM source_health WHERE wall_us >= ? AND wall_us < ? GROUP BY source ORDER BY source",
        [since_us, until_us],
    ).fetchall()
    return [(source, state, reason) for source, state, reason in found]
