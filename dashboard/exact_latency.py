"""Latencies that were measured one by one: read per window, and drawn as lines without a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from dashboard import formats
from dashboard.charts import Gap, Panel, Trace, last_known, on_windows
from dashboard.data import Columns, columns
from dashboard.engines import Engine
from dashboard.ranges import Range, Windows
from stallscope.units import US_PER_MS, US_PER_SECOND

LEVELS = {"scrape": "scrape buckets", "step": "exact steps", "gap": "tokens"}
"""What a figure is known from, in words."""

MODULES = ("itl_quantile", "ttft_quantile")
_FINE_US = 10 * US_PER_SECOND


@dataclass(frozen=True, slots=True)
class Exact:
    """Quantiles of a latency per window.

    Attributes:
        level: step or gap.
        windows: The x axis.
        found: wall_us, quantile and value_us.
    """

    level: str
    windows: Windows
    found: Columns


def read_itl(connection: duckdb.DuckDBPyConnection, engine: Engine, span: Range) -> Exact | None:
    """Return inter-token latency from the best exact level, None where none covers the range.

    Args:
        connection: Sees the itl table of the range and module itl_quantile.
        engine: The engine.
        span: Range to show.
    """
    windows = span.windows(_FINE_US if span.itl_source() == "itl_10s" else 0)
    found = columns(
        connection,
        "SELECT wall_us, level, quantile, value_us FROM itl_per_output([0.5, 0.99, 0.999], $since, "
        "$until, step_us := $step, source := $source, only_engine := $engine) "
        "WHERE level <> 'scrape'",
        {**_asked(engine, span, windows), "source": span.itl_source()},
    )
    return Exact(found["level"][0], windows, found) if len(found["level"]) else None


def read_ttft(
    connection: duckdb.DuckDBPyConnection, engine: Engine, span: Range, windows: Windows
) -> Exact | None:
    """Return time to first token by the plugin, None where it does not cover the range.

    Args:
        connection: Sees the tables first_token and itl_1s and the modules above.
        engine: The engine.
        span: Range to show.
        windows: Windows that hold enough requests.
    """
    found = columns(
        connection,
        "SELECT wall_us, quantile, value_us FROM ttft_quantile([0.5, 0.99], $since, $until, "
        "step_us := $step, only_engine := $engine) SEMI JOIN (SELECT engine FROM itl_levels("
        "$since, $until, only_engine := $engine) WHERE level = 'step' AND is_enough) "
        "USING (engine)",
        _asked(engine, span, windows),
    )
    return Exact("step", windows, found) if len(found["wall_us"]) else None


def _asked(engine: Engine, span: Range, windows: Windows) -> dict[str, object]:
    """Return the parameters that both queries have."""
    return {
        "since": windows.start_us,
        "until": span.until_us,
        "step": windows.step_us,
        "engine": engine.id,
    }


def exact_panel(
    exact: Exact, family: str, look: tuple[str, int], engine: Engine, gaps: Sequence[Gap]
) -> Panel:
    """Return the panel of a latency that was measured one by one.

    Args:
        exact: The quantiles.
        family: itl_us or ttft_us.
        look: Title and height.
        engine: The engine.
        gaps: Stretches of which nothing is known.
    """
    title, height = look
    styles = ((0.999, "p999", "p99.9"), (0.5, "p50", "p50"), (0.99, "p99", "p99"))
    traces = [
        _trace(exact, quantile, style, label)
        for quantile, style, label in styles
        if (exact.found["quantile"] == quantile).any()
    ]
    newest = last_known(traces[-1].high) if traces else None
    now = "unknown" if newest is None else formats.latency(newest * US_PER_MS)
    return Panel(
        key=family,
        title=title,
        unit="ms, log",
        sub=f"{engine.name}, {LEVELS[exact.level]}",
        height=height,
        windows=exact.windows,
        traces=traces,
        log=True,
        stepped=True,
        floor=100,
        missing="no requests",
        gaps=gaps,
        alt=f"{title} of {engine.name}, from {LEVELS[exact.level]}: p99 is {now} now.",
    )


def _trace(exact: Exact, quantile: float, style: str, label: str) -> Trace:
    """Return one quantile as a line, in milliseconds."""
    mine = exact.found["quantile"] == quantile
    values = on_windows(
        exact.windows, exact.found["wall_us"][mine], exact.found["value_us"][mine], 1 / US_PER_MS
    )
    return Trace(label, values, style=style, bold=style == "p99")
