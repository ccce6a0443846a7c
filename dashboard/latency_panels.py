"""Panels of an engine's latencies: an exact line where there is one, else what its buckets know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb

from dashboard import formats
from dashboard.charts import (
    Gap,
    Panel,
    Trace,
    Values,
    last_interval,
    last_known,
    on_windows,
    short,
)
from dashboard.data import Columns, columns
from dashboard.engines import Engine
from dashboard.ranges import Range, Windows
from stallscope.units import US_PER_MS, US_PER_SECOND

_FAMILIES = (
    ("itl_us", "Inter-token latency", 88),
    ("ttft_us", "Time to first token", 66),
    ("e2e_us", "End to end", 60),
)
_ENOUGH = 30
_FEWEST_WINDOWS = 45


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an engine before its panels are read.

    Attributes:
        engine: The engine.
        exact: Whether its inter-token latency is measured gap by gap.
        rates: Observations per second by family.
    """

    engine: Engine
    exact: bool
    rates: Mapping[str, float]


def latency_panels(
    connection: duckdb.DuckDBPyConnection,
    known: Known,
    span: Range,
    windows: Windows,
    gaps: Sequence[Gap],
) -> list[Panel]:
    """Return one panel per latency, each from the best level there is.

    Args:
        connection: Sees the histogram and itl tables and the modules histogram_quantile and
            itl_quantile.
        known: The engine.
        span: Range to show.
        windows: Shortest windows that make sense, from how often the engine is scraped.
        gaps: Stretches in which it was not scraped.
    """
    exact = _exact_itl(connection, known.engine, span) if known.exact else None
    asked = [family for family, *_ in _FAMILIES if exact is None or family != "itl_us"]
    wide = {
        family: span.windows(max(windows.step_us, _enough_us(known.rates.get(family, 0.0), span)))
        for family in asked
    }
    found = _interval_traces(connection, known.engine, span, wide)
    return [
        _scraped_panel(known.engine, title, height, wide[family], found[family], family, gaps)
        if family in found or exact is None
        else _exact_panel(exact, known.engine, title, height, gaps)
        for family, title, height in _FAMILIES
    ]


def _scraped_panel(  # noqa: PLR0913, PLR0917 - one panel, all of it given
    engine: Engine,
    title: str,
    height: int,
    windows: Windows,
    traces: Sequence[Trace],
    family: str,
    gaps: Sequence[Gap],
) -> Panel:
    """Return the panel of a latency of which only the engine's own buckets are known."""
    unit, traces = in_readable_unit(traces)
    return Panel(
        key=family,
        title=title,
        unit=f"{unit}, log",
        sub=f"{engine.name}, scrape buckets",
        height=height,
        windows=windows,
        traces=traces,
        log=True,
        stepped=True,
        floor=100 if unit == "ms" else 10,
        missing="no requests",
        gaps=gaps,
        alt=_latency_alt(title, engine, traces, unit),
    )


def _enough_us(rate: float, span: Range) -> int:
    """Return how long a window must be to hold enough observations for a quantile to mean a thing.

    Never so long that fewer than a few dozen windows remain.
    """
    longest_us = (span.until_us - span.since_us) // _FEWEST_WINDOWS
    if rate <= 0:
        return 0
    return min(longest_us, int(_ENOUGH / rate * US_PER_SECOND))


def _interval_traces(
    connection: duckdb.DuckDBPyConnection,
    engine: Engine,
    span: Range,
    windows: Mapping[str, Windows],
) -> dict[str, list[Trace]]:
    """Return p99 and p50 by family as bands between bucket edges, one query per window length."""
    traces: dict[str, list[Trace]] = {}
    for step_us in sorted({wide.step_us for wide in windows.values()}):
        families = [family for family, wide in windows.items() if wide.step_us == step_us]
        found = columns(
            connection,
            "SELECT wall_us, family, quantile, lower_bound, upper_bound FROM histogram_quantile("
            "$families, [0.5, 0.99], $since, $until, step_us := $step, source := $source, "
            "only_engine := $engine)",
            {
                "families": families,
                "since": windows[families[0]].start_us,
                "until": span.until_us,
                "step": step_us,
                "engine": engine.id,
                "source": span.source("engine_histogram"),
            },
        )
        for family in families:
            mine = found["family"] == family
            rows = {name: values[mine] for name, values in found.items()}
            traces[family] = [
                _interval_trace(rows, quantile, windows[family]) for quantile in (0.99, 0.5)
            ]
    return traces


def _interval_trace(found: Columns, quantile: float, windows: Windows) -> Trace:
    """Return a quantile as a band between the edges of its bucket, in milliseconds."""
    mine = found["quantile"] == quantile
    wall = found["wall_us"][mine]
    tail = quantile > 0.9  # noqa: PLR2004 - the median or the tail
    return Trace(
        label="p99" if tail else "p50",
        high=on_windows(windows, wall, found["upper_bound"][mine], 1 / US_PER_MS),
        low=on_windows(windows, wall, found["lower_bound"][mine], 1 / US_PER_MS),
        style="p99" if tail else "p50",
        bold=tail,
        interval=True,
        fill=0.2 if tail else 0.08,
    )


def in_readable_unit(traces: Sequence[Trace]) -> tuple[str, list[Trace]]:
    """Return traces given in milliseconds in seconds if that is how people would read them."""
    lows = sorted(low for trace in traces[:1] for low in trace.low or trace.high if low is not None)
    if not lows or lows[len(lows) // 2] < US_PER_MS:
        return "ms", list(traces)
    return "s", [
        replace(
            trace,
            high=_thousandth(trace.high),
            low=None if trace.low is None else _thousandth(trace.low),
        )
        for trace in traces
    ]


def _thousandth(values: Values) -> list[float | None]:
    """Return milliseconds as seconds."""
    return [None if value is None else short(value / 1_000) for value in values]


def _latency_alt(title: str, engine: Engine, traces: Sequence[Trace], unit: str) -> str:
    """Return a latency panel in one sentence."""
    p99 = traces[0]
    lows = [low for low in p99.low or () if low is not None]
    if not lows:
        return f"{title} of {engine.name}: no requests in this range."
    to_us = US_PER_MS if unit == "ms" else US_PER_SECOND
    low, high = last_interval(p99)
    newest = formats.interval(low * to_us, None if high is None else high * to_us)
    worst = formats.latency(max(lows) * to_us)
    return f"{title} of {engine.name}: p99 lies at {newest} now; at its worst above {worst}."


def _exact_itl(
    connection: duckdb.DuckDBPyConnection, engine: Engine, span: Range
) -> tuple[Windows, str, Columns] | None:
    """Return exact inter-token latency per window with its level, or None without any."""
    windows = span.windows(10_000_000 if span.itl_source() == "itl_10s" else 0)
    found = columns(
        connection,
        "SELECT wall_us, level, quantile, value_us FROM itl_quantile([0.5, 0.99, 0.999], $since, "
        "$until, step_us := $step, source := $source, only_engine := $engine) "
        "WHERE level <> 'scrape'",
        {
            "since": windows.start_us,
            "until": span.until_us,
            "step": windows.step_us,
            "source": span.itl_source(),
            "engine": engine.id,
        },
    )
    levels = set(found["level"].tolist())
    if not levels:
        return None
    level = "step" if "step" in levels else "gap"
    mine = found["level"] == level
    return windows, level, {name: values[mine] for name, values in found.items()}


def _exact_panel(
    exact: tuple[Windows, str, Columns],
    engine: Engine,
    title: str,
    height: int,
    gaps: Sequence[Gap],
) -> Panel:
    """Return the panel of inter-token latency that was measured gap by gap."""
    windows, level, found = exact
    traces = []
    for quantile, style in ((0.999, "p999"), (0.5, "p50"), (0.99, "p99")):
        mine = found["quantile"] == quantile
        values = on_windows(windows, found["wall_us"][mine], found["value_us"][mine], 1 / US_PER_MS)
        label = "p99.9" if style == "p999" else style
        traces.append(Trace(label, values, style=style, bold=style == "p99"))
    newest = last_known(traces[-1].high)
    now = "unknown" if newest is None else formats.latency(newest * US_PER_MS)
    return Panel(
        key="itl_us",
        title=title,
        unit="ms, log",
        sub=f"{engine.name}, {'exact steps' if level == 'step' else 'tokens'}",
        height=height,
        windows=windows,
        traces=traces,
        log=True,
        stepped=True,
        floor=100,
        missing="no requests",
        gaps=gaps,
        alt=f"{title} of {engine.name}: p99 is {now} now.",
    )
