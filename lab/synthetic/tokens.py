"""Token rows as a busy host makes them: engine steps, requests that come and go, spikes.

All requests of an engine get their token in one step. Steps are lognormal around a base that grows
with the number of requests, with rare spikes. The tap stamps each chunk when it leaves, so chunks
of a step are some microseconds apart and a gap is the step's length give or take that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stallscope.schema import arrow_schema
from stallscope.units import US_PER_SECOND

Integers = npt.NDArray[np.int64]

_SIGMA = (
    0.18  # spread of step times; p99 of vLLM's decode-only steps is about 1.5 times their median
)
_SPIKE_SHARE = 0.003
_SPIKE_FACTOR = 8
_SEND_MEAN_US = 25.0  # between two chunks of a step, in the API server's loop
_ANSWER_TOKENS = 300  # mean length of an answer: so often a request makes room for the next


@dataclass(frozen=True, slots=True)
class Tape:
    """Token rows of so many seconds, in order of time, to be played again and again.

    Attributes:
        length_us: After this long it begins anew.
        offset_us: When each row happens, from the begin of the tape.
        engine: Engine of each row, from 1.
        request: Request of each row.
        chunk: Position in the answer.
        gap_us: Pause before it; -1 for the first of an answer.
    """

    length_us: int
    offset_us: Integers
    engine: Integers
    request: Integers
    chunk: Integers
    gap_us: Integers

    def rows(self, begin: int, end: int, wall_us: int) -> pa.RecordBatch:
        """Return rows ``begin`` to ``end - 1`` of the tape, which begins at ``wall_us``."""
        part = slice(begin, end)
        gaps = self.gap_us[part]
        columns = [
            pa.array(self.offset_us[part] + wall_us),
            pa.array(self.engine[part].astype(np.uint16)),
            pa.array(self.request[part].astype(np.uint32)),
            pa.array(self.chunk[part].astype(np.uint32)),
            pa.array(np.maximum(gaps, 0).astype(np.uint32), mask=gaps < 0),
            pa.array(np.ones(len(gaps), dtype=np.uint8)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema("token_gap"))


def make_tape(rows_per_second: int, seconds: int, running: Sequence[int], seed: int = 1) -> Tape:
    """Return a tape of about so many rows a second.

    Args:
        rows_per_second: Of all engines together.
        seconds: Length of the tape.
        running: Requests that each engine runs at once.
        seed: Same seed, same tape.
    """
    dice = np.random.default_rng(seed)
    parts = [
        _engine_part(dice, number, count, rows_per_second / len(running), seconds)
        for number, count in enumerate(running, start=1)
    ]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return Tape(seconds * US_PER_SECOND, *(column[order] for column in columns))


def _engine_part(
    dice: np.random.Generator, engine: int, running: int, rate: float, seconds: int
) -> tuple[Integers, ...]:
    """Return (offset, engine, request, chunk, gap) of one engine's rows, step after step."""
    starts = _step_starts(dice, running, rate, seconds)
    steps = len(starts)
    sends = np.cumsum(dice.exponential(_SEND_MEAN_US, (steps, running)), axis=1)
    offsets = (starts[:, None] + sends).astype(np.int64)
    fresh = dice.random((steps, running)) < 1 / _ANSWER_TOKENS
    fresh[0] = True
    answers = np.cumsum(fresh, axis=0)
    requests = engine * 1_000_000 + answers * running + np.arange(running)
    gaps = np.diff(offsets, axis=0, prepend=0)
    gaps[fresh] = -1
    engines = np.full(offsets.size, engine, dtype=np.int64)
    return offsets.ravel(), engines, requests.ravel(), _chunks(fresh).ravel(), gaps.ravel()


def _step_starts(
    dice: np.random.Generator, running: int, rate: float, seconds: int
) -> npt.NDArray[np.float64]:
    """Return when each step ends, in microseconds from the begin."""
    mean_us = running / rate * US_PER_SECOND
    count = int(seconds * US_PER_SECOND / mean_us)
    lengths = dice.lognormal(0.0, _SIGMA, count)
    lengths[dice.random(count) < _SPIKE_SHARE] *= _SPIKE_FACTOR
    lengths *= seconds * US_PER_SECOND / lengths.sum()
    return np.cumsum(lengths)


def _chunks(fresh: npt.NDArray[np.bool_]) -> Integers:
    """Return each row's position in its answer: steps since its request's first token."""
    steps = np.arange(len(fresh))[:, None]
    begun = np.maximum.accumulate(np.where(fresh, steps, 0), axis=0)
    return (steps - begun).astype(np.int64)


def usual_running(engines: int, seed: int = 1) -> list[int]:
    """Return how many requests each engine runs: 16 to 256, evenly spread on a log scale."""
    dice = np.random.default_rng(seed)
    return [round(2 ** dice.uniform(4, 8)) for _ in range(engines)]
