"""The SQL that makes tables out of lists of segments, for the catalog and for our own readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from stallscope.columns import SQL, Table
from stallscope.schema import TABLES
from stallscope.storage.manifest import Entry
from stallscope.storage.rollup_sql import Rollup, rollup_into
from stallscope.storage.rows import name_in_version


def view_statement(
    table: Table, entries: Iterable[Entry], segments: Path, *, temporary: bool = False
) -> str:
    """Return the CREATE VIEW of a table.

    Args:
        table: The table.
        entries: Segments to read, of this table and of the table its rollup tail is made from.
        segments: The lake's segments folder, absolute.
        temporary: Make the view vanish with the connection.
    """
    entries = list(entries)
    body = relation(table, [entry for entry in entries if entry.table == table.name], segments)
    rollup = rollup_into(table.name)
    if rollup is not None:
        tail = [e for e in entries if e.table == rollup.source and e.level == 0]
        body = _with_tail(body, rollup, tail, segments)
    time = f", make_timestamp({table.time}) AS time" if table.time else ""
    kind = "TEMP VIEW" if temporary else "VIEW"
    return f"CREATE OR REPLACE {kind} {quoted(table.name)} AS SELECT *{time} FROM ({body})"


def _with_tail(body: str, rollup: Rollup, tail: Sequence[Entry], segments: Path) -> str:
    """Return a rollup's stored rows and those that its next compaction will store."""
    if not tail:
        return body
    source = relation(TABLES[rollup.source], tail, segments)
    return f"{body} UNION ALL (WITH source AS ({source}) SELECT * FROM ({rollup.select}))"


def relation(table: Table, entries: Sequence[Entry], segments: Path) -> str:
    """Return a SELECT over the segments with the table's columns of today.

    Segments of one schema version are read together by an explicit list: a glob breaks at the first
    damaged file, and columns must not depend on file order. Without segments it is typed and empty.
    """
    ordered = sorted(entries, key=lambda entry: (entry.version, entry.first))
    parts = [
        _read(table, version, [segments / entry.file for entry in group])
        for version, group in groupby(ordered, key=lambda entry: entry.version)
    ]
    return " UNION ALL ".join(parts) if parts else _empty(table)


def _read(table: Table, version: int, files: Sequence[Path]) -> str:
    """Return the SELECT over files that one schema version wrote.

    Each column names where it comes from: in a macro, DuckDB takes a bare name in a view for a
    parameter of the macro as well, and refuses `step_us` of engine_step as ambiguous.
    """
    columns = ", ".join(
        f"CAST(NULL AS {SQL[column.kind]}) AS {quoted(column.name)}"
        if version < column.since
        else _column(quoted(name_in_version(column.name, column.was, version)), column.name)
        for column in table.columns
    )
    listed = ", ".join(text(str(file)) for file in files)
    return f"SELECT {columns} FROM read_parquet([{listed}]) AS stored"


def _column(stored: str, name: str) -> str:
    """Return a stored column under its name of today."""
    return f"stored.{stored}" if stored == quoted(name) else f"stored.{stored} AS {quoted(name)}"


def _empty(table: Table) -> str:
    """Return a SELECT with the table's columns and no row."""
    columns = ", ".join(
        f"CAST(NULL AS {SQL[column.kind]}) AS {quoted(column.name)}" for column in table.columns
    )
    return f"SELECT {columns} WHERE false"


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return a string as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"
