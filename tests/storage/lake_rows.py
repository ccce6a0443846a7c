"""Small rows whose every value is known, for tests of the lake."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stallscope.clock import Instant
from stallscope.schema import arrow_schema

MINUTE_US = 60_000_000
START_US = 1_796_000_040_000_000  # 2026-11-30 00:54:00 UTC, a whole minute


@dataclass
class HandClock:
    """A clock that moves when a test says so."""

    wall_us: int = START_US
    mono_us: int = 5_000_000

    def now(self) -> Instant:
        return Instant(self.wall_us, self.mono_us)

    def advance(self, us: int) -> None:
        self.wall_us += us
        self.mono_us += us


def gaps(first: int, count: int, *, wall_us: int = START_US, itl_us: int = 9_000) -> pa.RecordBatch:
    """Return token gaps whose request numbers run on from ``first``, so that each is unique."""
    columns = {
        "wall_us": [wall_us + number for number in range(count)],
        "engine": [1] * count,
        "request": list(range(first, first + count)),
        "chunk_index": [1] * count,
        "itl_us": [itl_us] * count,
        "tokens_in_output": [1] * count,
    }
    return pa.RecordBatch.from_pydict(columns, schema=arrow_schema("token_gap"))


def disk(device: int, wall_us: int, *, queue: float, reads: int = 0) -> dict[str, object]:
    """Return one poll of a disk."""
    return {
        "wall_us": wall_us,
        "mono_us": wall_us - START_US,
        "device": device,
        "queue_mean": queue,
        "reads": reads,
        "io_stuck_candidate": False,
    }


def histogram(wall_us: int, bounds: list[int], counts: list[int]) -> dict[str, object]:
    """Return one scrape of an inter-token latency histogram."""
    return {
        "wall_us": wall_us,
        "mono_us": wall_us - START_US,
        "engine": 1,
        "family": "itl_us",
        "observations": sum(counts),
        "sum": 10 * sum(counts),
        "bounds": bounds,
        "counts": counts,
    }
