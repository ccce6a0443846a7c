"""One request from arrival to end: its facts, its chunks, and its engine meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import duckdb
import streamlit as st

from dashboard.data import Columns, Question, columns, connected, open_lake, rows
from dashboard.ranges import Windows
from dashboard.request_rows import Request
from stallscope.units import US_PER_MS, US_PER_SECOND

_MODULES = ("requests", "engine_work", "request_timeline")
_TABLES = ("request", "request_name", "token_gap", "engine_step")
_SLACK_US = 90 * US_PER_SECOND
_LOOK_BACK_US = 1_800 * US_PER_SECOND
"""How far back the chunks of a request are looked for that has not told of its end."""
_MAX_WINDOWS = 700
_WORK_WINDOWS = 140
_NICE_MS = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000)
_LONGEST_US = 3_600 * US_PER_SECOND
_LARGEST_ID = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Life:
    """One request.

    Attributes:
        request: What is known of it as a whole; while it runs, nothing but times and engine.
        name: Hash of the engine's id of it, or the id; empty when it has none.
        windows: Its time, cut into windows for its pauses.
        work_windows: The same, cut so that each holds some steps of the engine.
        chunks: wall_us, itl_us, tokens_in_output, engine_itl_us and more of each chunk.
        work: What its engine did per window.
        ended: Whether it told of its end.
    """

    request: Request
    name: str
    windows: Windows
    work_windows: Windows
    chunks: Columns
    work: Columns
    ended: bool

    @property
    def has_chunks(self) -> bool:
        """Whether its chunks are known."""
        return len(self.chunks["wall_us"]) > 0


def request_number(text: str) -> int | None:
    """Return the request id that an URL names, None when it is none."""
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_LARGEST_ID)):
        return None
    number = int(text)
    return number if number <= _LARGEST_ID else None


def find_life(lake_path: Path, number: int, now_us: int) -> Life | None:
    """Return a request, None when the lake knows nothing of it.

    Args:
        lake_path: Folder of the lake.
        number: Its id.
        now_us: The present, whole seconds.

    Raises:
        LakeError: The lake cannot be read.
    """
    ended = _ended(lake_path, number, now_us // _SLACK_US)
    if ended is not None:
        return ended
    return _running(lake_path, number, now_us)


@st.cache_data(ttl=600, max_entries=16, show_spinner=False)
def _ended(lake_path: Path, number: int, look: int) -> Life | None:
    """Return a request that has told of its end.

    Args:
        lake_path: Folder of the lake.
        number: Its id.
        look: Part of the cache key, nothing else: one that has not ended may end.
    """
    del look
    lake = open_lake(lake_path)
    with connected(lake, Question(("request",))) as connection:
        found = connection.execute(
            "SELECT min(least(wall_us, coalesce(arrival_wall_us, wall_us))), max(wall_us) "
            "FROM request WHERE request = ?",
            [number],
        ).fetchone()
    if found is None or found[1] is None:
        return None
    since_us = max(int(found[0]), int(found[1]) - _LONGEST_US)
    with connected(lake, _question(since_us, int(found[1]))) as connection:
        request = _read_request(connection, number, since_us, int(found[1]))
        if request is None:
            return None
        begin_us = request.arrival_wall_us or since_us
        return _life(connection, request, (max(begin_us, since_us), int(found[1])), ended=True)


@st.cache_data(ttl=5, max_entries=16, show_spinner=False)
def _running(lake_path: Path, number: int, now_us: int) -> Life | None:
    """Return a request that still runs, or whose end nobody told of."""
    since_us = now_us - _LOOK_BACK_US
    with connected(open_lake(lake_path), _question(since_us, now_us)) as connection:
        found = connection.execute(
            "SELECT min(wall_us), max(wall_us), any_value(engine) FROM token_gap "
            "WHERE request = ? AND wall_us >= ?",
            [number, since_us],
        ).fetchone()
        if found is None or found[0] is None:
            return None
        unknown: dict[str, Any] = dict.fromkeys(field.name for field in fields(Request))
        known = {"wall_us": found[1], "engine": found[2], "request": number, "levels": "gap"}
        return _life(connection, Request(**(unknown | known)), (found[0], found[1]), ended=False)


def _question(since_us: int, until_us: int) -> Question:
    """Return what a request's life is read from."""
    return Question(_TABLES, since_us - _SLACK_US, until_us + _SLACK_US, _MODULES)


def _read_request(
    connection: duckdb.DuckDBPyConnection, number: int, since_us: int, until_us: int
) -> Request | None:
    """Return what is known of a request as a whole."""
    names = ", ".join(field.name for field in fields(Request))
    found = rows(
        connection,
        f"SELECT {names} FROM requests($since, $until) WHERE request = $request",
        {"since": since_us, "until": until_us + 1, "request": number},
    )
    return Request(**found[0]) if found else None


def _life(
    connection: duckdb.DuckDBPyConnection,
    request: Request,
    span: tuple[int, int],
    *,
    ended: bool,
) -> Life:
    """Return a request with its chunks and its engine's work."""
    windows, work_windows = _windows(*span, _MAX_WINDOWS), _windows(*span, _WORK_WINDOWS)
    parameters = {"since": span[0] - US_PER_SECOND, "until": span[1] + US_PER_SECOND}
    chunks = columns(
        connection,
        "SELECT wall_us, chunk_index, itl_us, tokens_in_output, steps, engine_itl_us, "
        "prefill_tokens, preempted FROM request_timeline($request, since_us := $since, "
        "until_us := $until, of_engine := $engine)",
        {**parameters, "request": request.request, "engine": request.engine},
    )
    work = columns(
        connection,
        "SELECT wall_us, prefill_tokens, preempted, running_max, waiting_max, load_bytes, "
        "store_bytes FROM engine_work($since, $until, step_us := $step, only_engine := $engine)",
        {
            "since": work_windows.start_us,
            "until": work_windows.end_us,
            "step": work_windows.step_us,
            "engine": request.engine,
        },
    )
    name = _name(connection, request.request)
    return Life(request, name, windows, work_windows, chunks, work, ended)


def _name(connection: duckdb.DuckDBPyConnection, number: int) -> str:
    """Return what table request_name says of a request."""
    found = connection.execute(
        "SELECT max_by(name, wall_us) FROM request_name WHERE request = ?", [number]
    ).fetchone()
    return "" if found is None or found[0] is None else str(found[0])


def _windows(since_us: int, until_us: int, most: int) -> Windows:
    """Return at most about so many windows of a readable length, counted from 1970."""
    wanted = max(1, until_us - since_us) / most
    step_us = next(
        (ms * US_PER_MS for ms in _NICE_MS if ms * US_PER_MS >= wanted), _NICE_MS[-1] * US_PER_MS
    )
    start_us = since_us - since_us % step_us
    return Windows(start_us, step_us, max(2, -(-(until_us + 1 - start_us) // step_us)))
