"""Tables of the schema in memory, with a few rows, and the SQL library over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from analytics.catalog import library_statements
from stallscope.schema import TABLES
from stallscope.storage.rows import to_batch
from stallscope.storage.views import view_statement

S = 1_000_000
Rows = Mapping[str, Sequence[Mapping[str, object]]]

_NAMED_BY_LIBRARY = (
    "engine_histogram",
    "engine_metrics",
    "engine_step",
    "first_token",
    "token_gap",
    "request",
    "itl_1s",
    "gpu_link",
    "gpu_link_1m",
    "pcie_uplink",
    "copy_event",
    "link_ceiling",
    "topology",
    "topology_finding",
)
"""Tables that views and macros name: DuckDB looks for them when they are defined."""


def empty_views(names: Iterable[str] = TABLES) -> list[str]:
    """Return statements that make tables of the schema, empty."""
    return [view_statement(TABLES[name], [], Path("/nowhere")) for name in names]


@contextmanager
def lake_of(
    rows: Rows, others: Iterable[str] = _NAMED_BY_LIBRARY, modules: Iterable[str] = ()
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection that sees these rows, the other tables empty, and modules of the library.

    Without modules it has all of them. What names few needs few tables, and is there sooner.
    """
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        for statement in empty_views(others):
            connection.execute(statement)
        fill(connection, rows)
        for statement in library_statements(*modules):
            connection.execute(statement)
        yield connection


def fill(connection: duckdb.DuckDBPyConnection, rows: Rows) -> None:
    """Put other rows into tables; for properties, which ask one lake again and again."""
    for table, of_table in rows.items():
        stored = pa.Table.from_batches([to_batch(table, of_table)])
        connection.register(f"rows_of_{table}", stored)
        connection.execute(
            f"CREATE OR REPLACE VIEW {table} AS "
            f"SELECT *, make_timestamp(wall_us) AS time FROM rows_of_{table}"
        )


def histogram(
    wall_us: int, counts: Sequence[int], bounds: Sequence[int], **more: object
) -> dict[str, object]:
    """Return a row of engine_histogram."""
    return {
        "wall_us": wall_us,
        "mono_us": wall_us,
        "engine": 1,
        "window_us": S,
        "family": "ttft_us",
        "observations": sum(counts),
        "sum": 0,
        "bounds": list(bounds),
        "counts": list(counts),
    } | more


def scrape(wall_us: int, **more: object) -> dict[str, object]:
    """Return a row of engine_metrics."""
    return {
        "wall_us": wall_us,
        "mono_us": wall_us,
        "engine": 1,
        "window_us": S,
        "scrape_us": 5_000,
        "restarted": False,
        "partial": False,
        "rejected_lines": 0,
        "duplicates": 0,
    } | more
