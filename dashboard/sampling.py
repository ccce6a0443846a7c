"""How densely a signal was sampled: windows must not be shorter than that, or they look empty."""

from __future__ import annotations

import duckdb
import numpy as np
import numpy.typing as npt

from dashboard.data import Columns
from dashboard.ranges import Range, Windows

_LATE = 0.75
"""A row that came a little late must not make the windows jump to the next length."""


def spacing_us(
    connection: duckdb.DuckDBPyConnection, table: str, span: Range, only: str = "true"
) -> int:
    """Return about how far apart the rows of a signal are, 0 where rollups are read.

    Args:
        connection: Sees the table.
        table: A signal table with window_us.
        span: Range that is shown.
        only: Condition for one entity, in SQL.
    """
    if not span.raw:
        return 0
    found = connection.execute(
        f"SELECT max_by(window_us, wall_us) FROM {table} "
        f"WHERE {only} AND wall_us >= ? AND wall_us < ?",
        [span.since_us, span.until_us],
    ).fetchone()
    return 0 if not found or found[0] is None else int(found[0] * _LATE)


def covered(found: Columns, windows: Windows) -> npt.NDArray[np.bool_]:
    """Return per window whether it has a row at all, be its values NULL or not."""
    seen = np.zeros(windows.count, dtype=bool)
    index = (found["wall_us"].astype(np.int64) - windows.start_us) // windows.step_us
    seen[index[(index >= 0) & (index < windows.count)]] = True
    return seen
