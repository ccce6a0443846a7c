"""Exact quantiles over one hour of raw token rows: 95 million of them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa

from lab.bench.figure import Figure
from lab.bench.machine import time_ms
from lab.bench.sizes import BEGIN_US
from lab.report import say
from lab.synthetic.lake_maker import LakeMaker
from lab.synthetic.tokens import make_tape, usual_running
from stallscope.storage.reader import Lake
from stallscope.units import US_PER_SECOND

_ROWS_PER_SECOND = 26_400
_MINUTE_S = 60
_MINUTES = 60
_EXACT = """
WITH gap AS (
    SELECT engine, itl_us, count(*) AS observations FROM token_gap
    WHERE itl_us IS NOT NULL GROUP BY ALL
), ranked AS (
    SELECT
        engine, itl_us,
        sum(observations) OVER (PARTITION BY engine ORDER BY itl_us) AS seen,
        sum(observations) OVER (PARTITION BY engine) AS total
    FROM gap
)
SELECT engine, min(itl_us) FILTER (seen >= ceil(0.99 * total)) FROM ranked GROUP BY engine"""
"""Counting equal gaps is exact and fits a reader's 512 MB; quantile_disc over all rows does not."""
_BAR_MS = 3_500


def measure_raw(repeats: int) -> list[Figure]:
    """Return milliseconds for the exact p99 of every engine; needs 0.6 GB of disk."""
    tape = make_tape(_ROWS_PER_SECOND, _MINUTE_S, usual_running(8))
    with tempfile.TemporaryDirectory(prefix="stallscope-bench-") as name:
        with LakeMaker(Path(name) / "lake") as maker:
            for minute in range(_MINUTES):
                begin_us = BEGIN_US + minute * _MINUTE_S * US_PER_SECOND
                rows = tape.rows(0, len(tape.offset_us), begin_us)
                maker.add("token_gap", pa.Table.from_batches([rows]))
                if minute % 10 == 0:
                    say(f"  minute {minute} of {_MINUTES}")
        lake = Lake(Path(name) / "lake")
        status = lake.status()
        with lake.connect(tables=["token_gap"]) as connection:
            values = [
                time_ms(lambda: connection.execute(_EXACT).fetchall()) for _ in range(repeats)
            ]
    title = f"exact p99 per engine over {status.rows / 1e6:.0f} M raw rows"
    return [Figure("query, raw", title, "ms", values, _BAR_MS)]
