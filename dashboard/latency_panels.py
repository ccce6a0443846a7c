"""Panels of an engine's latencies: an exact line where there is one, else what its buckets know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb

from dashboard import exact_latency, formats
from dashboard.charts import (
    Gap,
    Panel,
    Trace,
    Values,
    last_interval,
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
        connection: Sees the histogram and itl tables, first_token where rows are read one by one,
            and the modules histogram_quantile, itl_quantile and ttft_quantile.
        known: The engine.
        span: Range to show.
        windows: Shortest windows that make sense, from how often the engine is scraped.
        gaps: Stretches in which it was not scraped.
    """
    itl = exact_latency.read_itl(connection, known.engine, span) if known.exact else None
    asked = [family for family, *_ in _FAMILIES if itl is None or family != "itl_us"]
    wide = {family: _wide(known, span, windows, family) for family in asked}
    exact = {"itl_us": itl, "ttft_us": _exact_ttft(connection, known, span, wide["ttft_us"])}
    left = {family: wide[family] for family in asked if exact.get(family) is None}
    found = _interval_traces(connection, known.engine, span, left)
    return [
        _scraped_panel(known.engine, title, height, wide[family], found[family], family, gaps)
        if (measured := exact.get(family)) is None
        else exact_latency.exact_panel(measured, family, (title, height), known.engine, gaps)
        for family, title, height in _FAMILIES
    ]


def _exact_ttft(
    connection: duckdb.DuckDBPyConnection, known: Known, span: Range, windows: Windows
) -> exact_latency.Exact | None:
    """Return exact time to first token; of hours and days there is none, for want of a rollup."""
    if not known.exact or not span.raw:
        return None
    return exact_latency.read_ttft(connection, known.engine, span, windows)


def _wide(known: Known, span: Range, windows: Windows, family: str) -> Windows:
    """Return windows that hold enough observations of a family."""
    return span.windows(max(windows.step_us, _enough_us(known.rates.get(family, 0.0), span)))


def itl_panel(
    connection: duckdb.DuckDBPyConnection, known: Known, span: Range, windows: Windows
) -> Panel:
    """Return the panel of inter-token latency alone, from the best level there is.

    Args:
        connection: Sees the tables and modules that `latency_panels` needs.
        known: The engine.
        span: Range to show.
        windows: Shortest windows that make sense.
    """
    family, title, height = _FAMILIES[0]
    exact = exact_latency.read_itl(connection, known.engine, span) if known.exact else None
    if exact is not None:
        return exact_latency.exact_panel(exact, family, (title, height), known.engine, ())
    wide = _wide(known, span, windows, family)
    traces = _interval_traces(connection, known.engine, span, {family: wide})[family]
    return _scraped_panel(known.engine, title, height, wide, traces, family, ())


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
