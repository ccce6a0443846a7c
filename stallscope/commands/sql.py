"""`stallscope sql`: one SELECT over the lake, to the screen or into a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from analytics.catalog import library_statements
from stallscope.commands.messages import tell
from stallscope.commands.options import add_settings_options, lake_to_read
from stallscope.commands.progress import progress
from stallscope.commands.sql_export import FORMATS, export
from stallscope.errors import StallscopeError
from stallscope.sql.console import Limits, open_query

_SCREEN_ROWS = 1_000
_SCREEN_BYTES = 64_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "statement",
        nargs="?",
        default="-",
        help="exactly one SELECT, or EXPLAIN of one; left out or -: read from stdin",
    )
    parser.add_argument(
        "--format", choices=FORMATS, help="default: what --out ends with, else table"
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="write there instead of stdout")
    parser.add_argument(
        "--limit",
        metavar="ROWS",
        type=_row_count,
        help=f"stop after so many rows; default: {_SCREEN_ROWS} for a table, else all",
    )
    add_settings_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the statement; returns the exit status.

    Raises:
        StallscopeError: The statement is refused or fails, or the result cannot be written.
    """
    wanted = _format_of(arguments)
    statement = _statement_of(arguments.statement)
    lake, settings = lake_to_read(arguments)
    limits = _limits(wanted, arguments.limit, settings.sql.memory_mb, settings.sql.timeout_s)
    with (
        progress("query", settings.sql.timeout_s),
        open_query(lake, statement, limits, library=library_statements()) as query,
    ):
        rows = export(query, wanted, arguments.out)
    if query.truncated:
        tell(f"only the first {rows} rows; for all: --format csv, json or parquet")
    return 0


def _row_count(text: str) -> int:
    rows = int(text)
    if rows < 1:
        raise argparse.ArgumentTypeError("want at least 1")
    return rows


def _format_of(arguments: argparse.Namespace) -> str:
    if arguments.format is not None:
        wanted = str(arguments.format)
    elif arguments.out is not None:
        wanted = arguments.out.suffix.removeprefix(".").lower()
        if wanted not in FORMATS:
            raise StallscopeError(
                f"{arguments.out}: the name does not tell the format",
                f"Add --format {', '.join(FORMATS)}.",
            )
    else:
        wanted = "table"
    if wanted == "parquet" and arguments.out is None and sys.stdout.isatty():
        raise StallscopeError("Parquet is no text for a terminal", "Add --out FILE.")
    return wanted


def _statement_of(argument: str) -> str:
    if argument != "-":
        return argument
    if sys.stdin.isatty():
        raise StallscopeError("There is no statement", "For example: stallscope sql 'SHOW TABLES'")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise StallscopeError(f"stdin is not {error.encoding}: {error.reason}") from error


def _limits(wanted: str, rows: int | None, memory_mb: int, timeout_s: int) -> Limits:
    if wanted == "table":
        return Limits(memory_mb, timeout_s, rows or _SCREEN_ROWS, _SCREEN_BYTES)
    return Limits(memory_mb, timeout_s, max_rows=rows, max_bytes=None)
