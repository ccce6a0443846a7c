"""Asks the catalog what any outside reader would: are new rows there?"""

from __future__ import annotations

from pathlib import Path

import duckdb


def newest_row_us(catalog: Path, table: str, since_us: int) -> int | None:
    """Return the time of the newest row that the catalog shows, or None when there is none.

    Args:
        catalog: The catalog's file or symlink.
        table: A table with ``wall_us``.
        since_us: Older rows are not looked at.

    Raises:
        OSError: There is no catalog.
        duckdb.Error: It cannot be opened or read.
    """
    catalog.stat()  # a missing file is told in the system's words, not by DuckDB
    limits: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "memory_limit": "64MB",
    }
    question = f"SELECT max(wall_us) FROM {table} WHERE wall_us >= ?"
    with duckdb.connect(str(catalog), read_only=True, config=limits) as connection:
        found = connection.execute(question, [since_us]).fetchone()
    return None if found is None or found[0] is None else int(found[0])
