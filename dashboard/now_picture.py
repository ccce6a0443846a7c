"""Everything the Now page shows, as plain data: read once, kept for all who look at the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import streamlit as st

from analytics.quantiles import Interval, exact_itl, scraped_quantiles
from dashboard import engine_panels, host_panels, present
from dashboard.answers import Usual, banners, minute_words
from dashboard.changes import marks
from dashboard.charts import Panel, figure, window_note
from dashboard.data import Question, connected, newest_us, open_lake
from dashboard.engines import Engine, facts_version, names
from dashboard.latency_panels import Known
from dashboard.ranges import Range
from dashboard.sources import GOOD
from dashboard.tiles import tiles
from stallscope.units import US_PER_SECOND

_ROLLUPS_EVERY_US = 10 * US_PER_SECOND


@dataclass(frozen=True, slots=True)
class Picture:
    """What the Now page shows.

    Attributes:
        newest_us: Time of the newest measurement; None in an empty lake.
        engines: Engines seen in the range, the longest tail first.
        verdict: Data of the verdict component, without freshness.
        panels: Data of the panels component; None when there is nothing to draw.
        sources: (working, all) sources.
    """

    newest_us: int | None
    engines: tuple[Engine, ...]
    verdict: dict[str, Any]
    panels: dict[str, Any] | None
    sources: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Background:
    """What a range was like, by engine; read once a minute, since it changes slowly.

    Attributes:
        tails: p99 of inter-token latency.
        rates: Observations per second by engine and family.
    """

    tails: dict[int, Interval]
    rates: dict[int, dict[str, float]]


@dataclass(frozen=True, slots=True)
class _Read:
    """What is to be read.

    Attributes:
        lake_path: Folder of the lake.
        span: Range of the panels.
        engine: Name of the engine to show, if it exists.
        end_us: End of the last minute.
        usual: What the range was like.
    """

    lake_path: Path
    span: Range
    engine: str
    end_us: int
    usual: Background


@st.cache_data(ttl=30, max_entries=32, show_spinner=False)
def picture(
    lake_path: Path, version: str, span: Range, label: str, engine: str, now_us: int
) -> Picture:
    """Return what the Now page shows.

    Args:
        lake_path: Folder of the lake.
        version: Version of the lake: part of the cache key, nothing else.
        span: Range to show.
        label: The range in words.
        engine: Name of the engine to show, or anything else for the one with the longest tail.
        now_us: The present, whole seconds, so that tabs share the answer.

    Raises:
        LakeError: The lake cannot be read.
    """
    del version
    lake = open_lake(lake_path)
    newest = newest_us(lake)
    if newest is None:
        return Picture(None, (), {}, None, (0, 0))
    engines, disks = names(lake_path, facts_version(lake))
    usual = _usual(lake_path, *_whole_minutes(span))
    end_us = span.until_us if span.zoomed else min(now_us, newest + 1)
    read = _Read(lake_path, span, engine, end_us, usual)
    last_minute, drawn = (_from_rows if span.raw else _from_rollups)(read, engines, disks)
    held = Usual(label, usual.tails)
    begun_us = now_us - US_PER_SECOND  # of the second that is going on: nothing is late by rounding
    states = [state for _, state, _ in last_minute.sources]
    return Picture(
        newest_us=newest,
        engines=tuple(now.engine for now in last_minute.engines),
        verdict={
            "banners": [b.as_data() for b in banners(last_minute, held, newest, begun_us)],
            "tiles": tiles(last_minute, held, minute_words(end_us, now_us)),
        },
        panels=drawn,
        sources=(sum(state in GOOD for state in states), len(states)),
    )


@st.cache_data(ttl=120, max_entries=16, show_spinner=False)
def _usual(lake_path: Path, since_us: int, until_us: int) -> Background:
    """Return what a range was like."""
    span = Range(since_us, until_us)
    histogram = span.source("engine_histogram")
    question = Question(
        (histogram, span.itl_source()), since_us, until_us, ("histogram_quantile", "itl_quantile")
    )
    with connected(open_lake(lake_path), question) as connection:
        tails = scraped_quantiles(connection, ["itl_us"], [0.99], since_us, until_us, histogram)
        exact = exact_itl(connection, [0.99], since_us, until_us, span.itl_source())
        found = connection.execute(
            f"SELECT engine, family, sum(observations) FROM {histogram} "
            "WHERE wall_us >= ? AND wall_us < ? GROUP BY ALL",
            [since_us, until_us],
        ).fetchall()
    rates: dict[int, dict[str, float]] = {}
    for engine, family, observations in found:
        rates.setdefault(engine, {})[family] = float(observations) / span.seconds
    return Background({key[0]: tail for key, tail in (tails | exact).items()}, rates)


def _whole_minutes(span: Range) -> tuple[int, int]:
    """Return a range that ends with the last full minute, or as it is when the reader zoomed."""
    if span.zoomed:
        return span.since_us, span.until_us
    late_us = span.until_us % present.MINUTE_US
    return span.since_us - late_us, span.until_us - late_us


def _from_rows(
    read: _Read, engines: list[Engine], disks: dict[int, str]
) -> tuple[present.Present, dict[str, Any]]:
    """Return the last minute and the panels of a short range, all from the same rows."""
    with connected(open_lake(read.lake_path), _question(read.span, read.end_us)) as connection:
        last_minute = present.read_present(connection, engines, disks, read.end_us)
        known = _known(_wanted(engines, last_minute, read.engine), last_minute, read.usual)
        return last_minute, _draw(connection, engines, disks, known, read.span)


def _from_rollups(
    read: _Read, engines: list[Engine], disks: dict[int, str]
) -> tuple[present.Present, dict[str, Any]]:
    """Return the last minute from rows and the panels from rollups."""
    since_us = read.end_us - present.MINUTE_US
    minute = Question(present.TABLES, since_us, read.end_us, present.MODULES, present.KEPT)
    with connected(open_lake(read.lake_path), minute) as connection:
        last_minute = present.read_present(connection, engines, disks, read.end_us)
    known = _known(_wanted(engines, last_minute, read.engine), last_minute, read.usual)
    span = read.span
    if not span.zoomed:
        late_us = span.until_us % _ROLLUPS_EVERY_US
        span = Range(span.since_us - late_us, span.until_us - late_us)
    return last_minute, _rolled_up(read.lake_path, span, engines, disks, known)


@st.cache_data(ttl=120, max_entries=16, show_spinner=False)
def _rolled_up(
    lake_path: Path,
    span: Range,
    engines: list[Engine],
    disks: dict[int, str],
    known: Known | None,
) -> dict[str, Any]:
    """Return the panels of a long range; windows of minutes need no new answer every second."""
    with connected(open_lake(lake_path), _question(span, span.until_us)) as connection:
        return _draw(connection, engines, disks, known, span)


def _draw(
    connection: duckdb.DuckDBPyConnection,
    engines: list[Engine],
    disks: dict[int, str],
    known: Known | None,
    span: Range,
) -> dict[str, Any]:
    """Return the data of the panels component."""
    drawn = _panels(connection, disks, known, span)
    return figure(drawn, marks(connection, engines, span), span, window_note(drawn, span))


def _known(engine: Engine | None, last_minute: present.Present, usual: Background) -> Known | None:
    """Return what is known of the engine whose panels are shown."""
    if engine is None:
        return None
    now = next((now for now in last_minute.engines if now.engine.id == engine.id), None)
    tails = [usual.tails.get(engine.id), now.tail if now else None]
    exact = any(tail is not None and tail.level != "scrape" for tail in tails)
    return Known(engine, exact, usual.rates.get(engine.id, {}))


def _question(span: Range, end_us: int) -> Question:
    """Return what the panels have to see, and the last minute too where both are raw rows."""
    tables = [
        *engine_panels.needed_tables(span),
        *(span.source(table) for table in host_panels.TABLES),
        "change_event",
    ]
    since_us = span.since_us
    if span.raw:
        tables += present.TABLES
        since_us = min(since_us, end_us - present.MINUTE_US)
    return Question(
        tuple(dict.fromkeys(tables)),
        since_us,
        span.until_us,
        engine_panels.MODULES,
        present.KEPT if span.raw else {},
    )


def _wanted(engines: list[Engine], last_minute: present.Present, name: str) -> Engine | None:
    """Return the engine whose panels are shown: the named one, else that of the longest tail."""
    named = next((engine for engine in engines if engine.name == name), None)
    if named is not None:
        return named
    return last_minute.engines[0].engine if last_minute.engines else None


def _panels(
    connection: duckdb.DuckDBPyConnection,
    disks: dict[int, str],
    known: Known | None,
    span: Range,
) -> list[Panel]:
    """Return all panels; without an engine one line says where its panels would be."""
    host = host_panels.host_panels(connection, disks, span)
    if known is None:
        return [_absent(span), *host]
    return [*engine_panels.engine_panels(connection, known, span), *host]


def _absent(span: Range) -> Panel:
    """Return what stands in the place of the engine's panels."""
    return Panel(
        key="engine",
        title="Engine",
        unit="",
        sub="",
        height=54,
        windows=span.windows(),
        traces=(),
        alt="No engine found.",
        reason="Latency, requests and KV cache stand here as soon as an engine is found.",
    )
