"""What changed in a range, as marks through all panels."""

from __future__ import annotations

import duckdb

from dashboard.charts import Mark
from dashboard.data import rows
from dashboard.engines import Engine
from dashboard.ranges import Range

MAX_MARKS = 20
_CHANGES = {
    "engine_restarted": "restarted",
    "engine_version": "new version",
    "engine_config": "new settings",
    "driver": "driver changed",
    "kernel": "kernel changed",
    "device": "device changed",
    "calibration": "calibrated",
    "note": "note",
}


def marks(connection: duckdb.DuckDBPyConnection, engines: list[Engine], span: Range) -> list[Mark]:
    """Return what changed in the range, the newest few when there is more than fits.

    Args:
        connection: Sees change_event.
        engines: Engines by name.
        span: The range.
    """
    names = {engine.id: engine.name for engine in engines}
    found = rows(
        connection,
        "SELECT wall_us, engine, kind, text FROM change_event WHERE wall_us >= ? AND wall_us < ? "
        "ORDER BY wall_us DESC LIMIT ?",
        [span.since_us, span.until_us, MAX_MARKS],
    )
    return [
        Mark(
            row["wall_us"],
            row["text"]
            or f"{names.get(row['engine'], 'host')} {_CHANGES.get(row['kind'], row['kind'])}",
        )
        for row in reversed(found)
    ]
