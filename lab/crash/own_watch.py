"""Our own reader watching a live lake: ``python -m lab.crash.own_watch LAKE SECONDS``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from lab.crash.clock import real_now_us
from stallscope.storage.reader import Lake
from stallscope.units import US_PER_SECOND

_PAUSE_S = 0.2
_LOOK_BACK_US = 30 * US_PER_SECOND
_NEWEST = "SELECT max(wall_us), (SELECT count(*) FROM block_device) FROM token_gap"


def watch(path: Path, seconds: float) -> dict[str, object]:
    """Return ages in microseconds of the newest row at each look, and errors."""
    ages: list[int] = []
    errors: list[str] = []
    lake = Lake(path)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            ages.append(real_now_us() - _newest(lake))
        except Exception as error:  # noqa: BLE001 - every kind of error is what is counted here
            errors.append(str(error))
        time.sleep(_PAUSE_S)
    return {"ages_us": ages, "errors": errors}


def _newest(lake: Lake) -> int:
    """Return the time of the newest token row."""
    since = real_now_us() - _LOOK_BACK_US
    tables = ("token_gap", "block_device")
    with lake.connect(tables=tables, since_us=since) as connection:
        return int(connection.execute(_NEWEST).fetchall()[0][0])


if __name__ == "__main__":
    json.dump(watch(Path(sys.argv[1]), float(sys.argv[2])), sys.stdout)
