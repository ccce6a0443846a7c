"""Everything the Requests page shows of a range, as plain data: read once, kept for ten seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import streamlit as st

from analytics.quantiles import exact_itl
from dashboard import request_data, request_sheets
from dashboard.data import Question, connected, newest_us, open_lake
from dashboard.engines import Engine, facts_version, names
from dashboard.present import MINUTE_US
from dashboard.ranges import Range
from dashboard.request_answers import banners, is_blind
from dashboard.request_data import FEW_GAPS
from dashboard.request_figures import figures_sheet
from dashboard.request_rows import Asked, Level, Pause, Stall, Stretch
from dashboard.request_spread import (
    TTFT,
    Spread,
    first_token_spread,
    itl_spread,
    request_spread,
)
from dashboard.sheets import Sheet
from dashboard.sources import GOOD
from stallscope.units import US_PER_SECOND

_SETTLE_US = 10 * US_PER_SECOND
_LATE_US = 2 * US_PER_SECOND  # rows of the last seconds may still be on their way
_SLACK_US = 90 * US_PER_SECOND  # levels of a request end it at different moments


@dataclass(frozen=True, slots=True)
class RequestPicture:
    """What the Requests page shows of a range.

    Attributes:
        newest_us: Time of the newest measurement; None in an empty lake.
        engines: Names of the engines that can be chosen.
        sources: (working, all) sources.
        routes: Routes that can be chosen.
        verdict: Data of the verdict component.
        blind: Whether nothing at all is known of single requests.
        sheets: Data of the sheets by name.
        spreads: Distributions.
    """

    newest_us: int | None
    engines: tuple[str, ...] = ()
    sources: tuple[int, int] = (0, 0)
    routes: tuple[str, ...] = ()
    verdict: Mapping[str, Any] | None = None
    blind: bool = False
    sheets: Mapping[str, Any] | None = None
    spreads: tuple[Spread, ...] = ()


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a range."""

    levels: list[Level]
    totals: dict[str, Any]
    routes: tuple[str, ...]
    worst: Pause | Stretch | None
    sheets: dict[str, Any]
    spreads: tuple[Spread, ...]


def request_picture(lake_path: Path, asked: Asked, engine: str, now_us: int) -> RequestPicture:
    """Return what the Requests page shows of a range.

    Args:
        lake_path: Folder of the lake.
        asked: What the reader wants to see, but for the engine.
        engine: Name of the engine, or anything else for all of them.
        now_us: The present, whole seconds.

    Raises:
        LakeError: The lake cannot be read.
    """
    lake = open_lake(lake_path)
    newest = newest_us(lake)
    if newest is None:
        return RequestPicture(None)
    engines, _ = names(lake_path, facts_version(lake))
    chosen = next((one for one in engines if one.name == engine), None)
    settled = replace(asked, engine=chosen, span=_settled(asked.span))
    read = _read(lake_path, settled, tuple(engines))
    by_id = {one.id: one.name for one in engines}
    said = banners(
        settled, read.levels, read.totals, read.worst, by_id, newest_us=newest, now_us=now_us
    )
    return RequestPicture(
        newest_us=newest,
        engines=tuple(dict.fromkeys(one.name for one in engines)),
        sources=_sources(lake_path, newest // _SETTLE_US * _SETTLE_US),
        routes=read.routes,
        verdict={"banners": [banner.as_data() for banner in said], "tiles": []},
        blind=is_blind(read.levels, read.totals) and not (asked.context or asked.route),
        sheets=read.sheets,
        spreads=read.spreads,
    )


def _settled(span: Range) -> Range:
    """Return a range that moves every ten seconds only, or as it is when the reader zoomed."""
    if span.zoomed:
        return span
    late_us = (span.until_us - _LATE_US) % _SETTLE_US + _LATE_US
    return Range(span.since_us - late_us, span.until_us - late_us)


@st.cache_data(ttl=60, max_entries=16, show_spinner=False)
def _sources(lake_path: Path, until_us: int) -> tuple[int, int]:
    """Return how many sources worked, of how many, in a minute."""
    since_us = until_us - MINUTE_US
    with connected(open_lake(lake_path), Question(("source_health",), since_us)) as connection:
        found = connection.execute(
            "SELECT max_by(state, wall_us) FROM source_health WHERE wall_us >= ? GROUP BY source",
            [since_us],
        ).fetchall()
    return sum(state in GOOD for (state,) in found), len(found)


@st.cache_data(ttl=60, max_entries=32, show_spinner=False)
def _read(lake_path: Path, asked: Asked, engines: tuple[Engine, ...]) -> _Read:
    """Return what is to be seen of a range."""
    by_id = {one.id: one.name for one in engines}
    tables = tuple(dict.fromkeys((*request_data.TABLES, asked.span.itl_source())))
    span = asked.span
    question = Question(
        tables, span.since_us - _SLACK_US, span.until_us + _SLACK_US, request_data.MODULES
    )
    with connected(open_lake(lake_path), question) as connection:
        levels = request_data.read_levels(connection, asked)
        request_data.keep_ended(connection, asked)
        totals = _totals(connection, asked)
        gaps = sum(level.observations for level in levels if level.level == "gap")
        few = span.raw and gaps <= FEW_GAPS
        worst, pauses = _longest(connection, asked, by_id)
        slowest = request_data.read_slowest(connection, asked)
        classes = request_data.read_classes(connection, asked, with_gaps=few)
        figures = _figures(connection, asked, totals, by_id, few=few, gaps=gaps)
        return _Read(
            levels,
            totals,
            tuple(request_data.read_routes(connection, asked)),
            worst,
            {
                "figures": figures.as_data(),
                "pauses": pauses.as_data(),
                "slowest": request_sheets.slowest_sheet(
                    slowest, asked, by_id, span.until_us
                ).as_data(),
                "classes": request_sheets.classes_sheet(classes, asked).as_data(),
            },
            _spreads(connection, asked, levels, single=totals["single"]),
        )


def _totals(connection: duckdb.DuckDBPyConnection, asked: Asked) -> dict[str, Any]:
    """Return counts and quantiles; time to first token by the plugin where no request tells it.

    ``single`` is whether time to first token is known request by request.
    """
    totals = request_data.read_totals(connection)
    single = totals["ttft_us_p99"] is not None or bool(asked.context or asked.route)
    told = {} if single else request_data.read_first_tokens(connection, asked)
    return {**totals, **told, "single": single}


def _longest(
    connection: duckdb.DuckDBPyConnection, asked: Asked, by_id: Mapping[int, str]
) -> tuple[Pause | Stretch | None, Sheet]:
    """Return the longest pause, and the table of the longest ones."""
    until_us = asked.span.until_us
    if asked.span.raw:
        pauses = request_data.read_pauses(connection, asked)
        sheet = request_sheets.pauses_sheet(pauses, asked, by_id, until_us)
        return next(iter(pauses), None), sheet
    stretches = request_data.read_stretches(connection, asked)
    sheet = request_sheets.stretches_sheet(stretches, by_id, until_us)
    return next(iter(stretches), None), sheet


def _figures(
    connection: duckdb.DuckDBPyConnection,
    asked: Asked,
    totals: Mapping[str, Any],
    by_id: Mapping[int, str],
    *,
    few: bool,
    gaps: int,
) -> Sheet:
    """Return the figures of the range."""
    tails = _tails(connection, asked)
    tail = max(tails, key=lambda one: one[2], default=None)
    itl = None if tail is None else (by_id.get(tail[0], f"engine {tail[0]}"), *tail[1:])
    per_token = request_data.read_per_token(connection, asked) if few and tail else {}
    return figures_sheet(
        totals,
        itl,
        per_token.get(tail[0]) if tail else None,
        _stall(connection, asked, few=few, gaps=gaps),
    )


def _tails(
    connection: duckdb.DuckDBPyConnection, asked: Asked
) -> list[tuple[int, float, float, str]]:
    """Return (engine, p50, p99, level) of engines whose pauses are known one by one."""
    span = asked.span
    found = exact_itl(connection, (0.5, 0.99), span.since_us, span.until_us, span.itl_source())
    return [
        (engine, median.value_us or 0.0, tail.value_us or 0.0, tail.level)
        for (engine, _, quantile), tail in found.items()
        if quantile > 0.9  # noqa: PLR2004 - the tail, of which the median goes along
        and (asked.engine is None or asked.engine.id == engine)
        and (median := found.get((engine, "itl_us", 0.5))) is not None
    ]


def _stall(
    connection: duckdb.DuckDBPyConnection, asked: Asked, *, few: bool, gaps: int
) -> Stall | str:
    """Return what the servers added, that of the worst engine, or why it is not known."""
    if not gaps:
        return "needs the middleware"
    if not few:
        return "choose a shorter range"
    found = [one for one in request_data.read_stalls(connection, asked) if one.gaps]
    return max(found, key=lambda one: one.stall_us or -1, default="needs the middleware")


def _spreads(
    connection: duckdb.DuckDBPyConnection, asked: Asked, levels: Sequence[Level], *, single: bool
) -> tuple[Spread, ...]:
    """Return the distributions."""
    both = ("ttft_us", "ttft_without_queue_us")
    return (
        itl_spread(connection, asked, levels),
        request_spread(connection, asked, "ttft", TTFT, both)
        if single
        else first_token_spread(connection, asked),
        request_spread(connection, asked, "tpot", "Time per output token", ("tpot_us",)),
    )
