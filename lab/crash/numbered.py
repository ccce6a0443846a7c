"""Rows that carry their own number, so that a reader can tell lost, doubled and altered ones.

Every process of a trial is a run of its own: its token rows have the run as engine and count from
0, its gauge rows have ten devices of their own and count polls in column ``reads``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stallscope.clock import Instant
from stallscope.schema import arrow_schema

CHUNKS_PER_REQUEST = 1_000
DEVICES = 10
_FIRST_OF_ANSWER = 97
"""Every so manieth row is the first of an answer, which has no gap."""

Numbers = npt.NDArray[np.int64]


def gap_us(run: int, numbers: Numbers) -> Numbers:
    """Return the gap that a row must carry: any altered bit is seen."""
    return 1_000 + (numbers * 7_919 + run * 104_729) % 100_003


GAP_SQL = "1000 + (n * 7919 + engine * 104729) % 100003"
"""The same, for the reader's side; ``n`` and ``engine`` are BIGINT there."""
NUMBER_SQL = f"(request - 1) * {CHUNKS_PER_REQUEST}::BIGINT + chunk_index"
IS_FIRST_SQL = f"n % {_FIRST_OF_ANSWER} = 0"


def token_rows(run: int, first: int, count: int, since_us: int, until_us: int) -> pa.RecordBatch:
    """Return token rows ``first`` to ``first + count - 1`` of a run, spread over a time range."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    walls = np.linspace(since_us, until_us, count, endpoint=False).astype(np.int64)
    columns = (
        pa.array(walls),
        pa.array(np.full(count, run, dtype=np.uint16)),
        pa.array((numbers // CHUNKS_PER_REQUEST + 1).astype(np.uint32)),
        pa.array((numbers % CHUNKS_PER_REQUEST).astype(np.uint32)),
        pa.array(gap_us(run, numbers).astype(np.uint32), mask=numbers % _FIRST_OF_ANSWER == 0),
        pa.array(np.ones(count, dtype=np.uint8)),
    )
    return pa.RecordBatch.from_arrays(list(columns), schema=arrow_schema("token_gap"))


def gauge_rows(run: int, poll: int, now: Instant) -> list[dict[str, object]]:
    """Return one poll of all disks of a run."""
    return [
        {
            "wall_us": now.wall_us,
            "mono_us": now.mono_us,
            "device": device_of(run, disk),
            "window_us": 100_000,
            "reads": poll,
            "read_await_mean_us": float(poll % 500),
            "in_flight": poll % 8,
            "io_stuck_candidate": False,
        }
        for disk in range(DEVICES)
    ]


def device_of(run: int, disk: int) -> int:
    """Return the device id of a disk of a run."""
    return run * DEVICES + disk


def engine_row(run: int, now: Instant) -> dict[str, object]:
    """Return the fact row of a run."""
    return {
        "wall_us": now.wall_us,
        "engine": run,
        "host": "lab",
        "endpoint": f"run-{run}",
        "rank": "0",
        "model": "lab",
        "name": f"run {run}",
        "kind": "unknown",
    }
