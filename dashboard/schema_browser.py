"""What can be asked: tables from the schema, views and macros from the SQL library, examples."""

from __future__ import annotations

import re
from dataclasses import dataclass

from analytics.catalog import library_statements
from stallscope.schema import TABLES

_DEFINES = re.compile(r"^CREATE OR REPLACE (VIEW|MACRO) (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Thing:
    """A table, view or macro.

    Attributes:
        name: Its name.
        kind: table, view or macro.
        meaning: What it is, for people.
        columns: (name, type, unit, meaning) per column; empty for views and macros.
        try_it: A statement that shows it.
    """

    name: str
    kind: str
    meaning: str
    columns: tuple[tuple[str, str, str, str], ...]
    try_it: str


@dataclass(frozen=True, slots=True)
class Example:
    """A query worth having, by the question it answers."""

    question: str
    sql: str


def things() -> list[Thing]:
    """Return everything that can be asked, tables first."""
    return [*(_table(name) for name in TABLES), *_library()]


def _table(name: str) -> Thing:
    """Return a table of the schema."""
    table = TABLES[name]
    columns = tuple(
        (column.name, column.kind.value, column.unit, column.meaning) for column in table.columns
    )
    order = "" if not table.time else f"\nORDER BY {table.time} DESC"
    return Thing(name, "table", table.meaning, columns, f"SELECT *\nFROM {name}{order}\nLIMIT 100")


def _library() -> list[Thing]:
    """Return the public views and macros, each with its header comment."""
    found = []
    for statement in library_statements():
        match = _DEFINES.search(statement)
        if match is None or match[2].startswith("_"):
            continue
        header = "\n".join(
            line.removeprefix("--").removeprefix(" ")
            for line in statement.splitlines()
            if line.startswith("--")
        )
        found.append(
            Thing(
                match[2],
                match[1].lower(),
                header,
                (),
                _TRY.get(match[2], f"SELECT *\nFROM {match[2]}\nLIMIT 100"),
            )
        )
    return found


_LAST = "us_ago(INTERVAL '15 minutes'), us_ago(INTERVAL '0 seconds')"
_TRY = {
    "us_ago": "SELECT us_ago(INTERVAL '15 minutes')",
    "window_start_us": "SELECT window_start_us(us_ago(INTERVAL '1 hour'), 60000000)",
    "bucket_upper_us": "SELECT bucket_upper_us(466) AS about_10_ms",
    "bucket_middle_us": "SELECT bucket_middle_us(466) AS about_10_ms",
    "histogram_quantile": f"SELECT *\nFROM histogram_quantile(\n    ['ttft_us', 'e2e_us'], "
    f"[0.5, 0.99],\n    {_LAST}\n)",
    "latency_quantile": f"SELECT *\nFROM latency_quantile(\n    'ttft_us', 0.99,\n    {_LAST}\n)",
    "itl_quantile": f"SELECT *\nFROM itl_quantile(\n    [0.5, 0.99, 0.999],\n    {_LAST}\n)",
    "kv_hits": f"SELECT *\nFROM kv_hits(\n    {_LAST}\n)",
}

EXAMPLES = (
    Example(
        "p99 time to first token per engine, last 15 minutes",
        (
            "SELECT engine.name, q.lower_us / 1000 AS above_ms, q.upper_us / 1000 AS at_most_ms,\n"
            "       q.observations, q.note\n"
            "FROM latency_quantile(\n"
            "    'ttft_us', 0.99,\n"
            "    us_ago(INTERVAL '15 minutes'), us_ago(INTERVAL '0 seconds')\n"
            ") AS q JOIN engine USING (engine)\n"
            "ORDER BY above_ms DESC"
        ),
    ),
    Example(
        "Inter-token latency per minute, last hour",
        (
            "SELECT time, engine, quantile, lower_us / 1000 AS above_ms,\n"
            "       upper_us / 1000 AS at_most_ms, observations\n"
            "FROM itl_quantile(\n"
            "    [0.5, 0.99],\n"
            "    us_ago(INTERVAL '1 hour'), us_ago(INTERVAL '0 seconds'),\n"
            "    step_us := 60000000\n"
            ")\n"
            "ORDER BY time, engine, quantile"
        ),
    ),
    Example(
        "KV hit rate by tier per minute, last hour",
        (
            "SELECT time, engine, tier, round(100 * hit_ratio, 1) AS hit_percent, queries, flag\n"
            "FROM kv_hits(\n"
            "    us_ago(INTERVAL '1 hour'), us_ago(INTERVAL '0 seconds'),\n"
            "    step_us := 60000000\n"
            ")\n"
            "ORDER BY time, engine, tier"
        ),
    ),
    Example(
        "Worst moments of the slowest disk today",
        (
            "SELECT b.time, device.name, b.read_await_mean_us / 1000 AS read_ms, b.queue_mean,\n"
            "       b.in_flight\n"
            "FROM block_device AS b JOIN device USING (device)\n"
            "WHERE b.wall_us >= us_ago(INTERVAL '24 hours')\n"
            "ORDER BY b.read_await_mean_us DESC NULLS LAST\n"
            "LIMIT 50"
        ),
    ),
    Example(
        "Pressure per minute, last day",
        (
            "SELECT time, 100 * io_some_ratio_max AS io_percent,\n"
            "       100 * cpu_some_ratio_max AS cpu_percent,\n"
            "       100 * memory_some_ratio_max AS memory_percent\n"
            "FROM host_pressure_1m\n"
            "WHERE scope = 'system' AND wall_us >= us_ago(INTERVAL '24 hours')\n"
            "ORDER BY time"
        ),
    ),
    Example(
        "What changed, newest first",
        (
            "SELECT time, kind, engine, text, before, after\n"
            "FROM change_event\n"
            "ORDER BY wall_us DESC\n"
            "LIMIT 100"
        ),
    ),
    Example(
        "Sources that did not work in the last hour, and why",
        (
            "SELECT source, state, reason, count(*) AS seconds, max(time) AS last\n"
            "FROM source_health\n"
            "WHERE state <> 'working' AND wall_us >= us_ago(INTERVAL '1 hour')\n"
            "GROUP BY ALL\n"
            "ORDER BY seconds DESC"
        ),
    ),
)
