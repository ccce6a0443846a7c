"""Many rows into few windows without losing a peak: smallest and largest value of each window."""

from __future__ import annotations

from collections.abc import Sequence


def extremes(  # noqa: PLR0913 - the parts of one SELECT
    table: str,
    key: str,
    columns: Sequence[str],
    *,
    step_us: int,
    since_us: int,
    until_us: int,
    only: str = "",
) -> str:
    """Return a SELECT of the extremes of gauges per entity and window.

    Rollups per minute are read through their ``_min`` and ``_max`` columns, so that the same peak
    comes out of either resolution.

    Args:
        table: A signal table or its ``_1m`` rollup.
        key: Column that names the entity.
        columns: Gauges, by their name in the signal table.
        step_us: Length of a window; windows are counted from 1970.
        since_us: First moment.
        until_us: Moment after the last one.
        only: A further condition on the key, in SQL.

    Returns:
        SQL with the columns ``wall_us`` (begin of the window), the key, and ``<gauge>_low`` and
        ``<gauge>_high`` per gauge, NULL where nothing was measured.
    """
    rolled = table.endswith("_1m")
    parts = ", ".join(
        f"min({name}{'_min' if rolled else ''}) AS {name}_low, "
        f"max({name}{'_max' if rolled else ''}) AS {name}_high"
        for name in columns
    )
    condition = f" AND {only}" if only else ""
    return (
        f"SELECT wall_us - wall_us % {step_us} AS wall_us, {key}, {parts} FROM {table} "
        f"WHERE wall_us >= {since_us} AND wall_us < {until_us}{condition} GROUP BY 1, 2"
    )
