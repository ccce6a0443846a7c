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


_NAMED_BY_VIEWS = ("engine_histogram", "engine_metrics")


def empty_views(names: Iterable[str] = TABLES) -> list[str]:
    """Return statements that make tables of the schema, empty."""
    return [view_statement(TABLES[name], [], Path("/nowhere")) for name in names]


@contextmanager
def lake_of(
    rows: Rows, others: Iterable[str] = _NAMED_BY_VIEWS
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection that sees these rows, and the other tables empty."""
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        for statement in empty_views(others):
            connection.execute(statement)
        for table, of_table in rows.items():
            stored = pa.Table.from_batches([to_batch(table, of_table)])
            connection.register(f"rows_of_{table}", stored)
            connection.execute(
                f"CREATE OR REPLACE VIEW {table} AS "
                f"SELECT *, make_timestamp(wall_us) AS time FROM rows_of_{table}"
            )
        for statement in library_statements():
            connection.execute(statement)
        yield connection


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
