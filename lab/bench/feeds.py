"""Sources that stand in for signals this machine has not: token gaps and GPUs, at a given pace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from collector.source import NoData, Reading
from lab.synthetic.gauges import link_rows, state_rows
from lab.synthetic.tokens import Tape
from stallscope.clock import Clock
from stallscope.units import US_PER_MS, US_PER_SECOND

_GPUS = 8


class TokenFeed:
    """Plays a tape of token rows in real time.

    Args:
        tape: What to play, again and again.
        clock: Says how far it is.
    """

    name = "token_gaps"
    tables = ("token_gap",)
    interval_us = 100 * US_PER_MS
    deadline_us = US_PER_SECOND

    def __init__(self, tape: Tape, clock: Clock) -> None:
        self._tape = tape
        self._clock = clock
        self._begin_us = clock.now().wall_us
        self._played = 0

    def read(self) -> Reading | NoData:
        """Return the rows that are due since the reading before."""
        now_us = self._clock.now().wall_us
        if now_us - self._begin_us >= self._tape.length_us:
            rows = self._take(len(self._tape.offset_us))
            self._begin_us, self._played = self._begin_us + self._tape.length_us, 0
            return Reading({"token_gap": rows})
        return Reading({"token_gap": self._take(self._due(now_us))})

    def _due(self, now_us: int) -> int:
        return int(np.searchsorted(self._tape.offset_us, now_us - self._begin_us))

    def _take(self, until: int) -> pa.RecordBatch:
        rows = self._tape.rows(self._played, until, self._begin_us)
        self._played = until
        return rows

    def close(self) -> None:
        """Do nothing: nothing is open."""


@dataclass(slots=True)
class GpuFeed:
    """Hands out prepared rows of eight GPUs.

    Attributes:
        name: Source name.
        table: Table that its rows are for.
        make: Makes rows of one GPU.
        clock: Stamps them.
    """

    name: str
    table: str
    make: Callable[
        [np.random.Generator, np.ndarray[tuple[int], np.dtype[np.int64]], int, int], pa.RecordBatch
    ]
    clock: Clock
    interval_us: int = US_PER_SECOND
    deadline_us: int = US_PER_SECOND

    @property
    def tables(self) -> tuple[str, ...]:
        """Tables it writes."""
        return (self.table,)

    def read(self) -> Reading | NoData:
        """Return one row per GPU."""
        now = self.clock.now()
        walls = np.array([now.wall_us], dtype=np.int64)
        dice = np.random.default_rng(now.wall_us)
        rows = [
            self.make(dice, walls, gpu, self.interval_us).to_pylist()[0] for gpu in range(_GPUS)
        ]
        return Reading({self.table: [{**row, "mono_us": now.mono_us} for row in rows]})

    def close(self) -> None:
        """Do nothing: nothing is open."""


def gpu_feeds(clock: Clock) -> list[GpuFeed]:
    """Return the feeds that stand in for the GPU sources."""
    return [
        GpuFeed("gpu_link", "gpu_link", link_rows, clock),
        GpuFeed("gpu_state", "gpu_state", state_rows, clock),
    ]
