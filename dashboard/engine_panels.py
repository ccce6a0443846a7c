"""Panels of one engine: latencies with their uncertainty, requests, KV cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from analytics.decimation import extremes
from dashboard import exact_latency, formats
from dashboard.charts import Gap, Panel, Trace, Values, gaps_of, last_known, on_windows
from dashboard.data import Columns, columns
from dashboard.engines import Engine
from dashboard.latency_panels import Known, latency_panels
from dashboard.ranges import Range, Windows
from dashboard.sampling import covered, spacing_us

TABLES = ("engine_metrics", "engine_histogram")
MODULES = ("histogram_quantile", *exact_latency.MODULES, "kv_hits")
_TIERS = (
    ("device", "GPU", 0.25),
    ("host", "RAM", 0.55),
    ("disk", "NVMe", 1.0),
    ("p2p", "peer", 0.75),
    ("external", "external", 0.4),
)
_NO_SCRAPE = "no scrape answered"


def engine_panels(connection: duckdb.DuckDBPyConnection, known: Known, span: Range) -> list[Panel]:
    """Return the panels of an engine.

    Args:
        connection: Sees the tables and modules above, or their rollups, and the itl table.
        known: The engine.
        span: Range to show.
    """
    engine = known.engine
    windows = span.windows(
        spacing_us(connection, "engine_metrics", span, f"engine = {engine.id:d}")
    )
    gauges = _gauges(connection, engine, span, windows)
    gaps = gaps_of(windows, covered(gauges, windows), span.until_us, _NO_SCRAPE)
    return [
        *latency_panels(connection, known, span, windows, gaps),
        _requests(engine, windows, gauges, gaps),
        _kv_cache(connection, engine, span, windows, gauges, gaps),
    ]


def _gauges(
    connection: duckdb.DuckDBPyConnection, engine: Engine, span: Range, windows: Windows
) -> Columns:
    """Return the extremes of the engine's gauges per window."""
    sql = extremes(
        span.source("engine_metrics"),
        "engine",
        ("running", "waiting", "kv_usage_ratio"),
        step_us=windows.step_us,
        since_us=windows.start_us,
        until_us=span.until_us,
        only=f"engine = {engine.id:d}",
    )
    return columns(connection, sql)


def _extreme_trace(
    found: Columns,
    gauge: str,
    windows: Windows,
    label: str,
    *,
    scale: float = 1.0,
    **look: Any,  # noqa: ANN401 - handed on to Trace
) -> Trace:
    """Return a gauge as its largest value per window with a band down to the smallest."""
    return Trace(
        label,
        on_windows(windows, found["wall_us"], found[f"{gauge}_high"], scale),
        on_windows(windows, found["wall_us"], found[f"{gauge}_low"], scale),
        **look,
    )


def _requests(engine: Engine, windows: Windows, gauges: Columns, gaps: Sequence[Gap]) -> Panel:
    """Return the panel of requests running and waiting."""
    waiting = _extreme_trace(gauges, "waiting", windows, "waiting", style="second")
    running = _extreme_trace(gauges, "running", windows, "running", colour="load", bold=True)
    return Panel(
        key="requests",
        title="Requests",
        unit="count",
        sub=engine.name,
        height=56,
        windows=windows,
        traces=[waiting, running],
        floor=4,
        gaps=gaps,
        alt=f"Requests of {engine.name}: {_now(running.high)} running, "
        f"{_now(waiting.high)} waiting.",
    )


def _now(values: Values) -> str:
    """Return the newest value in words."""
    newest = last_known(values)
    return "not known how many" if newest is None else formats.number(newest)


def _kv_cache(
    connection: duckdb.DuckDBPyConnection,
    engine: Engine,
    span: Range,
    windows: Windows,
    gauges: Columns,
    gaps: Sequence[Gap],
) -> Panel:
    """Return the panel of the KV cache: hit rate by tier, and how full it is."""
    found = columns(
        connection,
        "SELECT wall_us, tier, basis, hit_ratio FROM kv_hits($since, $until, step_us := $step, "
        "source := $source, only_engine := $engine)",
        {
            "since": windows.start_us,
            "until": span.until_us,
            "step": windows.step_us,
            "source": span.source("engine_metrics"),
            "engine": engine.id,
        },
    )
    by_prompt = "prompt tokens" in set(found["basis"].tolist())
    traces = _tier_traces(found, windows, stack=by_prompt)
    usage = _extreme_trace(gauges, "kv_usage_ratio", windows, "KV usage", scale=100, style="second")
    what = "prompt tokens" if by_prompt else "tokens looked up"
    parts = [f"{trace.label} {_now(trace.high)} %" for trace in traces] or ["hit rate not offered"]
    return Panel(
        key="kv",
        title="KV hits and usage",
        unit=f"% of {what}",
        sub=engine.name,
        height=66,
        windows=windows,
        traces=[*traces, usage],
        top=100,
        gaps=gaps,
        missing="no prompts",
        alt=f"KV cache of {engine.name}: usage {_now(usage.high)} %, hits: {', '.join(parts)}.",
    )


def _tier_traces(found: Columns, windows: Windows, *, stack: bool) -> list[Trace]:
    """Return one layer per tier that ever hit, and the GPU's in any case."""
    traces = []
    for tier, label, fill in _TIERS:
        mine = found["tier"] == tier
        ratios: npt.NDArray[np.float64] = found["hit_ratio"][mine].astype(np.float64)
        if not mine.any() or (tier != "device" and not np.nansum(ratios)):
            continue
        values = on_windows(windows, found["wall_us"][mine], ratios, 100)
        traces.append(
            Trace(
                label,
                values,
                colour="kv_reload",
                fill=fill,
                stack=stack,
                style="main" if stack else "second",
                bold=tier == "device",
            )
        )
    return traces


def needed_tables(span: Range) -> tuple[str, ...]:
    """Return the tables that `engine_panels` reads for a range."""
    return (*(span.source(table) for table in TABLES), span.itl_source(), "first_token")
