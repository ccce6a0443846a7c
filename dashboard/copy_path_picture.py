"""Everything the Copy path page shows, as plain data: read once, kept for all who look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import streamlit as st

from analytics.quantiles import exact_itl, scraped_quantiles
from dashboard import (
    copy_path_contention,
    copy_path_links,
    copy_path_over,
    copy_path_topology,
)
from dashboard.answers import minute_words
from dashboard.changes import marks
from dashboard.charts import figure, window_note
from dashboard.copy_path_answers import banners
from dashboard.copy_path_contention import Contention
from dashboard.copy_path_devices import Devices, read_devices
from dashboard.copy_path_links import LinkNow, UplinkNow
from dashboard.copy_path_panels import LINK_TABLES, excess_panel, link_panels
from dashboard.copy_path_tiles import Shown, link_sheet, tiles
from dashboard.copy_path_topology import Topology
from dashboard.data import Question, connected, newest_us, open_lake
from dashboard.engines import Engine, facts_version, names
from dashboard.latency_panels import Known, itl_panel
from dashboard.present import MINUTE_US, tail_us
from dashboard.ranges import Range
from dashboard.sources import GOOD
from stallscope.storage.reader import Lake
from stallscope.units import US_PER_SECOND

_SETTLE_US = 10 * US_PER_SECOND
"""How often what is dear to read is read anew."""
_ITL_TABLES = ("itl_1s", "engine_histogram")
_ITL_MODULES = ("histogram_quantile", "itl_quantile")


@dataclass(frozen=True, slots=True)
class CopyPicture:
    """What the Copy path page shows.

    Attributes:
        newest_us: Time of the newest measurement; None in an empty lake.
        engines: Engines seen in the last minute, the longest tail first.
        sources: (working, all) sources.
        verdict: Data of the verdict component.
        links: Data of the sheet of links.
        panels: Data of the panels component.
        contention: ITL against the links; None without an engine.
        topology: The newest look at the machine.
    """

    newest_us: int | None
    engines: tuple[Engine, ...] = ()
    sources: tuple[int, int] = (0, 0)
    verdict: Mapping[str, Any] | None = None
    links: Mapping[str, Any] | None = None
    panels: Mapping[str, Any] | None = None
    contention: Contention | None = None
    topology: Topology | None = None


@dataclass(frozen=True, slots=True)
class _Minute:
    """The last minute of data; engines with the longest tail first."""

    links: list[LinkNow]
    uplinks: list[UplinkNow]
    sources: dict[str, tuple[str, str]]
    engines: list[Engine]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The whole range: its panels, how long links were busy, when GPUs were last read."""

    panels: dict[str, Any]
    over: copy_path_over.Over
    last_seen: dict[int, int]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be read.

    Attributes:
        lake_path: Folder of the lake.
        engines: Engines by name.
        devices: GPUs and bridges by name.
        span: The range.
        end_us: End of the last minute.
        engine: Name of the engine to compare, if it exists.
    """

    lake_path: Path
    engines: list[Engine]
    devices: Devices
    span: Range
    end_us: int
    engine: str

    def chosen(self, minute: _Minute) -> Engine | None:
        """Return the engine to compare, None when there is none."""
        named = (one for one in minute.engines if one.name == self.engine)
        return next(named, next(iter(minute.engines), None))


@st.cache_data(ttl=30, max_entries=32, show_spinner=False)
def copy_picture(
    lake_path: Path, version: str, span: Range, engine: str, link: str, now_us: int
) -> CopyPicture:
    """Return what the Copy path page shows.

    Args:
        lake_path: Folder of the lake.
        version: Version of the lake: part of the cache key, nothing else.
        span: Range to show.
        engine: Name of the engine to compare, or anything else for the one with the longest tail.
        link: Name of the link to compare, or anything else for the hottest.
        now_us: The present, whole seconds, so that tabs share the answer.

    Raises:
        LakeError: The lake cannot be read.
    """
    del version
    lake = open_lake(lake_path)
    newest = newest_us(lake)
    if newest is None:
        return CopyPicture(None)
    facts = facts_version(lake)
    end_us = span.until_us if span.zoomed else min(now_us, newest + 1)
    devices = read_devices(lake_path, facts)
    asked = _Asked(lake_path, names(lake_path, facts)[0], devices, span, end_us, engine)
    minute, stretch = (_from_rows if span.raw else _from_rollups)(lake, asked)
    gone = copy_path_over.vanished(stretch.last_seen, devices, minute.links, now_us)
    shown = Shown([*minute.links, *gone], minute.uplinks, stretch.over)
    words = minute_words(end_us, now_us)
    states = [state for state, _ in minute.sources.values()]
    return CopyPicture(
        newest_us=newest,
        engines=tuple(minute.engines),
        sources=(sum(state in GOOD for state in states), len(states)),
        verdict=_verdict(shown, minute.sources.get("gpu_link"), words, newest, now_us),
        links=link_sheet(shown, words, end_us, span.until_us - span.since_us).as_data(),
        panels=stretch.panels,
        contention=_compared(asked, asked.chosen(minute), link),
        topology=_topology(lake_path, _topology_version(lake), devices),
    )


def _verdict(
    shown: Shown, source: tuple[str, str] | None, minute: str, newest_us: int, now_us: int
) -> dict[str, Any]:
    """Return the data of the verdict component."""
    begun_us = now_us - US_PER_SECOND  # of the second that is going on: nothing is late by rounding
    said = banners(shown.links, shown.uplinks, source, minute, newest_us, begun_us)
    return {
        "banners": [banner.as_data() for banner in said],
        "tiles": tiles(shown.links, minute),
    }


def _from_rows(lake: Lake, asked: _Asked) -> tuple[_Minute, _Stretch]:
    """Return the last minute and a short range, all from the same rows."""
    tables = (*copy_path_links.TABLES, *_ITL_TABLES, "change_event")
    since_us = min(asked.span.since_us, asked.end_us - MINUTE_US)
    modules = (*copy_path_links.MODULES, *_ITL_MODULES, "intervals", "itl_excess")
    question = Question(tables, since_us, asked.span.until_us, modules, copy_path_links.KEPT)
    with connected(lake, question) as connection:
        minute = _read_minute(connection, asked)
        engine = asked.chosen(minute)
        return minute, _read_stretch(connection, asked, minute.links, engine, asked.span)


def _from_rollups(lake: Lake, asked: _Asked) -> tuple[_Minute, _Stretch]:
    """Return the last minute from rows and a long range from rollups."""
    tables = (*copy_path_links.TABLES, *_ITL_TABLES)
    modules = (*copy_path_links.MODULES, *_ITL_MODULES)
    question = Question(tables, asked.end_us - MINUTE_US, asked.end_us, modules)
    with connected(lake, question) as connection:
        minute = _read_minute(connection, asked)
    known = replace(asked, span=_settled(asked.span), end_us=0)
    return minute, _rolled_up(known, minute.links, asked.chosen(minute))


@st.cache_data(ttl=120, max_entries=16, show_spinner=False)
def _rolled_up(asked: _Asked, _now: list[LinkNow], engine: Engine | None) -> _Stretch:
    """Return a long range; the ceilings in ``_now`` are no part of the key."""
    span = asked.span
    tables = [*(span.source(table) for table in (*LINK_TABLES, "engine_histogram")), "change_event"]
    question = Question(
        (*tables, span.itl_source()),
        span.since_us,
        span.until_us,
        (*_ITL_MODULES, copy_path_over.over_module(span)),
    )
    with connected(open_lake(asked.lake_path), question) as connection:
        return _read_stretch(connection, asked, _now, engine, span)


def _read_minute(connection: duckdb.DuckDBPyConnection, asked: _Asked) -> _Minute:
    """Return the last minute of data."""
    since_us, end_us = asked.end_us - MINUTE_US, asked.end_us
    return _Minute(
        copy_path_links.read_links(connection, asked.devices, since_us, end_us),
        copy_path_links.read_uplinks(connection, asked.devices, since_us, end_us),
        copy_path_links.read_sources(connection, since_us, end_us),
        _by_tail(connection, asked.engines, since_us, end_us),
    )


def _read_stretch(
    connection: duckdb.DuckDBPyConnection,
    asked: _Asked,
    now: list[LinkNow],
    engine: Engine | None,
    span: Range,
) -> _Stretch:
    """Return a whole range."""
    panels = link_panels(connection, asked.devices, now, span)
    if engine is not None:
        draw = excess_panel if span.raw else _long_itl
        panels.insert(0, draw(connection, engine, span))
    changes = marks(connection, asked.engines, span)
    return _Stretch(
        figure(panels, changes, span, window_note(panels, span)),
        copy_path_over.read_over(connection, span),
        copy_path_over.read_last_seen(connection, span),
    )


def _by_tail(
    connection: duckdb.DuckDBPyConnection, engines: Sequence[Engine], since_us: int, until_us: int
) -> list[Engine]:
    """Return the engines that have inter-token latency, the longest tail first."""
    tails = scraped_quantiles(
        connection, ["itl_us"], [0.99], since_us, until_us, "engine_histogram"
    ) | exact_itl(connection, [0.99], since_us, until_us, "itl_1s")
    by_engine = {engine: tail_us(tail) for (engine, _, _), tail in tails.items()}
    seen = [engine for engine in engines if engine.id in by_engine]
    return sorted(seen, key=lambda engine: (-by_engine[engine.id], engine.name))


def _settled(span: Range) -> Range:
    """Return a range that moves every ten seconds only, or as it is when the reader zoomed."""
    if span.zoomed:
        return span
    late_us = span.until_us % _SETTLE_US
    return Range(span.since_us - late_us, span.until_us - late_us)


def _long_itl(connection: duckdb.DuckDBPyConnection, engine: Engine, span: Range) -> Any:  # noqa: ANN401
    """Return the panel of inter-token latency over hours and days."""
    return itl_panel(connection, Known(engine, exact=True, rates={}), span, span.windows())


def _compared(asked: _Asked, engine: Engine | None, link: str) -> Contention | None:
    """Return ITL against the links, None without an engine."""
    if engine is None:
        return None
    span = copy_path_contention.compared_range(_settled(asked.span))
    return _contention(asked.lake_path, asked.devices, engine, span, link)


@st.cache_data(ttl=120, max_entries=16, show_spinner=False)
def _contention(
    lake_path: Path, devices: Devices, engine: Engine, span: Range, link: str
) -> Contention:
    """Return ITL against the links over a range."""
    question = Question(
        copy_path_contention.TABLES, span.since_us, span.until_us, copy_path_contention.MODULES
    )
    with connected(open_lake(lake_path), question) as connection:
        return copy_path_contention.read_contention(connection, engine, devices, span, link)


def _topology_version(lake: Lake) -> tuple[str, ...]:
    """Return what changes when the topology does: the segments that hold it."""
    return tuple(sorted(entry.file for entry in lake.entries(copy_path_topology.TABLES)))


@st.cache_data(max_entries=8, show_spinner=False)
def _topology(lake_path: Path, version: tuple[str, ...], devices: Devices) -> Topology:
    """Return the newest look at the machine; read anew only when there is a newer one."""
    del version
    with connected(
        open_lake(lake_path),
        Question(copy_path_topology.TABLES, modules=copy_path_topology.MODULES),
    ) as connection:
        return copy_path_topology.read_topology(connection, devices)
