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
_LAST_MINUTE = "us_ago(INTERVAL '1 minute'), us_ago(INTERVAL '0 seconds')"
_TRY = {
    "us_ago": "SELECT us_ago(INTERVAL '15 minutes')",
    "window_start_us": "SELECT window_start_us(us_ago(INTERVAL '1 hour'), 60000000)",
    "bucket_upper_us": "SELECT bucket_upper_us(466) AS about_10_ms",
    "bucket_middle_us": "SELECT bucket_middle_us(466) AS about_10_ms",
    "histogram_quantile": f"SELECT *\nFROM histogram_quantile(\n    ['ttft_us', 'e2e_us'], "
    f"[0.5, 0.99],\n    {_LAST}\n)",
    "latency_quantile": f"SELECT *\nFROM latency_quantile(\n    'ttft_us', 0.99,\n    {_LAST}\n)",
    "itl_quantile": f"SELECT *\nFROM itl_quantile(\n    [0.5, 0.99, 0.999],\n    {_LAST}\n)",
    "itl_levels": f"SELECT *\nFROM itl_levels(\n    {_LAST}\n)",
    "itl_per_output": f"SELECT *\nFROM itl_per_output(\n    [0.5, 0.99, 0.999],\n    {_LAST}\n)",
    "itl_per_token": f"SELECT *\nFROM itl_per_token(\n    [0.5, 0.99],\n    {_LAST_MINUTE}\n)",
    "ttft_quantile": f"SELECT *\nFROM ttft_quantile(\n    [0.5, 0.99],\n    {_LAST}\n)",
    "tpot_us": "SELECT tpot_us(900000, 31) AS thirty_ms",
    "requests": f"SELECT *\nFROM requests(\n    {_LAST}\n)\nORDER BY e2e_us DESC\nLIMIT 100",
    "requests_by_class": f"SELECT *\nFROM requests_by_class(\n    {_LAST}\n)",
    "kv_copies": f"SELECT *\nFROM kv_copies(\n    {_LAST}\n)",
    "kv_fetches": f"SELECT *\nFROM kv_fetches(\n    {_LAST}\n)",
    "kv_hits_of_steps": f"SELECT *\nFROM kv_hits_of_steps(\n    {_LAST}\n)",
    "engine_work": f"SELECT *\nFROM engine_work(\n    {_LAST_MINUTE},\n    step_us := 1000000\n)",
    "api_server_stall": f"SELECT *\nFROM api_server_stall(\n    {_LAST_MINUTE}\n)",
    "slowest_gaps": f"SELECT *\nFROM slowest_gaps(\n    {_LAST_MINUTE},\n"
    "    together_us := 100000\n)",
    "request_timeline": "SELECT *\nFROM request_timeline(\n"
    "    (SELECT max(request) FROM request)\n)",
    "kv_hits": f"SELECT *\nFROM kv_hits(\n    {_LAST}\n)",
    "copy_path": f"SELECT *\nFROM copy_path(\n    {_LAST}\n)",
    "copy_path_minutes": f"SELECT *\nFROM copy_path_minutes(\n    {_LAST}\n)",
    "uplinks": f"SELECT *\nFROM uplinks(\n    {_LAST}\n)",
    "link_ceilings": "SELECT *\nFROM link_ceilings()",
    "throttle_words": "SELECT throttle_words(36)",
    "itl_excess": f"SELECT *\nFROM itl_excess(\n    {_LAST}\n)",
    "link_windows": f"SELECT *\nFROM link_windows(\n    {_LAST}\n)",
    "copy_backlog": f"SELECT *\nFROM copy_backlog(\n    {_LAST}\n)",
    "kv_copy_windows": f"SELECT *\nFROM kv_copy_windows(\n    {_LAST}\n)",
    "copy_contention": f"SELECT *\nFROM copy_contention(\n    {_LAST}\n)",
}

EXAMPLES = (
    Example(
        "The longest pauses of the last 5 minutes, and what the engine did meanwhile",
        (
            "SELECT p.time, engine.name, p.itl_us / 1000 AS pause_ms,\n"
            "       p.engine_itl_us / 1000 AS engine_ms, p.outputs AS requests,\n"
            "       p.prefill_tokens, p.preempted, p.load_bytes, p.request, p.level\n"
            "FROM slowest_gaps(\n"
            "    us_ago(INTERVAL '5 minutes'), us_ago(INTERVAL '0 seconds'),\n"
            "    together_us := 100000\n"
            ") AS p JOIN engine USING (engine)\n"
            "ORDER BY pause_ms DESC"
        ),
    ),
    Example(
        "Requests by context length and route, last 15 minutes",
        (
            "SELECT context_class, route, requests, failed, aborted,\n"
            "       ttft_p99_us / 1000 AS ttft_p99_ms,\n"
            "       ttft_without_queue_p99_us / 1000 AS without_queue_p99_ms,\n"
            "       itl_p99_us / 1000 AS itl_p99_ms, tpot_p99_us / 1000 AS tpot_p99_ms,\n"
            "       output_tokens\n"
            "FROM requests_by_class(\n"
            "    us_ago(INTERVAL '15 minutes'), us_ago(INTERVAL '0 seconds')\n"
            ")"
        ),
    ),
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
        "How full each GPU's link was, last 15 minutes",
        (
            "SELECT device.gpu_index, c.direction, c.mean_bytes_per_second / 1e9 AS gb_per_s,\n"
            "       c.ceiling_bytes_per_second / 1e9 AS at_most, c.ceiling_kind,\n"
            "       100 * c.saturation_max_ratio AS peak_percent, c.above_us / 1e6 AS busy_s,\n"
            "       c.method, c.coverage_ratio, c.state, c.reason\n"
            "FROM copy_path(\n"
            "    us_ago(INTERVAL '15 minutes'), us_ago(INTERVAL '0 seconds')\n"
            ") AS c JOIN device USING (device)\n"
            "ORDER BY peak_percent DESC NULLS LAST"
        ),
    ),
    Example(
        "Seconds with the longest gaps, and what the links did then",
        (
            "SELECT time, engine, excess_us / 1000 AS excess_ms, device, direction,\n"
            "       100 * saturation_ratio AS saturation_percent, backlog_us, copy_ratio\n"
            "FROM copy_contention(\n"
            "    us_ago(INTERVAL '15 minutes'), us_ago(INTERVAL '0 seconds')\n"
            ")\n"
            "ORDER BY excess_us DESC\n"
            "LIMIT 50"
        ),
    ),
    Example(
        "Why GPUs were slowed down, last hour",
        (
            "SELECT device, throttle_words(throttle_reasons) AS why, count(*) AS readings\n"
            "FROM gpu_state\n"
            "WHERE wall_us >= us_ago(INTERVAL '1 hour')\n"
            "GROUP BY ALL\n"
            "ORDER BY readings DESC"
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
