"""An outside client that watches a live catalog: started by path with the Python that has DuckDB.

``python outside_watch.py CATALOG SECONDS`` opens the catalog again and again, while one handle from
the beginning stays open, and writes what it saw as JSON. Uses nothing of ours.
"""

from __future__ import annotations

import json
import sys
import time

import duckdb

_PAUSE_S = 0.2
_NEWEST = "SELECT max(wall_us) FROM token_gap"
_COUNTS = (
    "SELECT count(*), (SELECT count(*) FROM block_device), "
    "(SELECT sum(samples) FROM block_device_1m)"
)


def watch(catalog: str, seconds: float) -> dict[str, object]:
    """Return ages in microseconds of the newest row, how often it was read, and errors."""
    ages: list[int] = []
    errors: list[str] = []
    deadline = time.monotonic() + seconds
    kept = duckdb.connect(catalog, read_only=True)
    while time.monotonic() < deadline:
        try:
            with duckdb.connect(catalog, read_only=True) as fresh:
                newest = fresh.execute(_NEWEST).fetchall()[0][0]
            ages.append(time.time_ns() // 1_000 - newest)
        except Exception as error:  # noqa: BLE001 - every kind of error is what is counted here
            errors.append(f"fresh: {error}")
        try:
            kept.execute(f"{_COUNTS} FROM token_gap").fetchall()
        except Exception as error:  # noqa: BLE001 - the same
            errors.append(f"kept: {error}")
        time.sleep(_PAUSE_S)
    kept.close()
    return {"ages_us": ages, "errors": errors}


if __name__ == "__main__":
    json.dump(watch(sys.argv[1], float(sys.argv[2])), sys.stdout)
