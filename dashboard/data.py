"""The one way in which pages reach the lake.

A question opens a connection that sees exactly the tables and segments it needs, runs, and closes
it: a connection kept longer would answer from a lake that no longer exists. Answers are kept per
version of the lake, so ten tabs that ask the same within a second cost one query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import streamlit as st

from analytics.catalog import library_statements
from stallscope.storage.reader import Lake

Columns = Mapping[str, npt.NDArray[Any]]
Parameters = Sequence[object] | Mapping[str, object]
_FOR_EVER_US = 1 << 62
LIVE_TABLES = ("engine_metrics", "block_device", "host_pressure", "source_health")


@st.cache_resource(show_spinner=False, max_entries=4)
def open_lake(path: Path) -> Lake:
    """Return the lake at a path; one per process, shared by all sessions.

    Raises:
        LakeError: There is none, or it cannot be read.
    """
    return Lake(path)


@dataclass(frozen=True, slots=True)
class Question:
    """What a connection has to see.

    Attributes:
        tables: Tables of the schema.
        since_us: Segments that end before are left out; None for all.
        until_us: Segments that begin later are left out; None for all.
        modules: Modules of the SQL library, see `analytics.catalog`.
        kept: Tables that several queries read, with the columns they need: read once into memory.
            A query pays about 0.1 ms per segment, and a live lake has a hundred of them.
    """

    tables: tuple[str, ...]
    since_us: int | None = None
    until_us: int | None = None
    modules: tuple[str, ...] = ()
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@contextmanager
def connected(lake: Lake, question: Question) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a fresh connection and close it afterwards.

    Raises:
        LakeError: A manifest cannot be read.
    """
    library = library_statements(*question.modules) if question.modules else ()
    connection = lake.connect(
        tables=question.tables,
        since_us=question.since_us,
        until_us=question.until_us,
        library=library,
    )
    try:
        for table, names in question.kept.items():
            _keep(connection, table, names, question)
        yield connection
    finally:
        connection.close()


def _keep(
    connection: duckdb.DuckDBPyConnection, table: str, names: tuple[str, ...], question: Question
) -> None:
    """Put the rows in range into a temporary table, which hides the view of the same name."""
    connection.execute(
        f"CREATE TEMP TABLE {table} AS SELECT {', '.join(names)} FROM main.{table} "
        "WHERE wall_us >= ? AND wall_us < ?",
        [question.since_us or 0, question.until_us or _FOR_EVER_US],
    )


def columns(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = ()
) -> Columns:
    """Return a result as arrays by column; missing numbers are NaN, missing texts None."""
    found = connection.execute(sql, _bound(parameters)).fetchnumpy()
    return {name: _plain(values) for name, values in found.items()}


def _plain(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array without a mask."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    data: npt.NDArray[Any] = np.asarray(values.data)
    missing = np.ma.getmaskarray(values)
    if not missing.any():
        return data
    plain = data.copy() if data.dtype.kind == "O" else data.astype(np.float64)
    plain[missing] = None if data.dtype.kind == "O" else np.nan
    return plain


def rows(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = ()
) -> list[dict[str, Any]]:
    """Return a small result as one mapping per row."""
    result = connection.execute(sql, _bound(parameters))
    names = [description[0] for description in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _bound(parameters: Parameters) -> list[object] | dict[str, object]:
    """Return parameters in a form DuckDB takes."""
    return dict(parameters) if isinstance(parameters, Mapping) else list(parameters)


def newest_us(lake: Lake) -> int | None:
    """Return the time of the newest measurement, or None in an empty lake.

    Read from the manifest alone: no file is opened for it.

    Raises:
        LakeError: A manifest cannot be read.
    """
    times = (entry.hi for entry in lake.entries(LIVE_TABLES) if entry.hi is not None)
    return max(times, default=None)


def oldest_us(lake: Lake) -> int | None:
    """Return the time of the oldest measurement or rollup, or None in an empty lake.

    Raises:
        LakeError: A manifest cannot be read.
    """
    return lake.status().oldest_us
