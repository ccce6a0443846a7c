"""Source engine_steps: every step of the engines, as the plugin in their server tells it.

The tap sends what vLLM hands to its stat loggers: one gap for all outputs of a step, the step's
counters, the first tokens and the requests that ended in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from collector.source import NoData, Reading, Row, Rows, SourceError
from collector.tap_columns import Flags, TapColumns, find_times, groups, join, to_batch
from collector.tap_engines import Index
from collector.tap_hub import Taps
from collector.tap_inbox import Lane
from collector.tap_lane import Letter, TapLane
from collector.tap_request import STATS
from collector.tap_request_rows import request_rows
from collector.tap_sessions import TapSession
from collector.tap_wire import Kind, Message
from stallscope.clock import Instant
from stallscope.columns import ARROW
from stallscope.schema import table
from stallscope.units import US_PER_MS, US_PER_SECOND

_STEP = table("engine_step")
_COMPUTED = frozenset({"wall_us", "mono_us", "engine", "engine_mono_us", "outlier"})
_NO_ENGINE = 255  # a tap with more ranks than that does not exist: the column is a byte
_OLDEST_US = 600 * US_PER_SECOND


class EngineSteps:
    """Steps of the engines.

    Args:
        taps: Shared with the other source that reads taps.
        interval_us: Wanted pace; taps send ten times a second.
    """

    name = "engine_steps"
    tables = ("engine_step", "first_token", "request", "request_name")

    def __init__(self, taps: Taps, *, interval_us: int = 100 * US_PER_MS) -> None:
        self.interval_us = interval_us
        self.deadline_us = 5 * US_PER_SECOND
        self._taps = taps
        self._lane = TapLane(Lane.STEPS, taps, find_indices)

    def read(self) -> Reading | NoData:
        """Return what came since the reading before.

        Returns:
            NoData where nothing can be received, or no tap has sent anything yet.

        Raises:
            SourceError: No ids could be had.
        """
        deaf = self._lane.why_deaf()
        if deaf is not None:
            return deaf
        letters, at = self._lane.collect()
        try:
            rows = self._rows(letters, at)
        except SourceError:
            self._lane.lose(letters, at)
            raise
        return self._lane.conclude(rows, at)

    def close(self) -> None:
        """Leave the taps."""
        self._lane.close()

    def _rows(self, letters: Sequence[Letter], at: Instant) -> dict[str, Rows]:
        steps = [letter for letter in letters if letter.message.kind is Kind.STEPS]
        batches = [self._steps(letters_of_one, at) for letters_of_one in groups(steps)]
        return {
            "engine_step": join(_STEP, batches),
            "first_token": [row for letter in steps for row in first_token_rows(letter, at)],
            "request": [row for letter in letters for row in self._requests(letter, at)],
            "request_name": self._taps.requests.take_names(at.wall_us),
        }

    def _requests(self, letter: Letter, at: Instant) -> Iterator[Row]:
        return request_rows(letter, self._taps.requests, STATS, at)

    def _steps(self, letters: Sequence[Letter], at: Instant) -> pa.RecordBatch:
        """Return the rows of one tap's steps."""
        session = letters[0].session
        columns = TapColumns([letter.message for letter in letters])
        tap_us = columns.whole("engine_mono_us", missing=-1)
        mono_us, keep = find_times(session, tap_us, at.mono_us)
        arrays = {
            column.name: columns.column(column.name, column.kind)
            for column in _STEP.columns
            if column.name not in _COMPUTED
        }
        keep &= arrays["outputs"].is_valid().to_numpy(zero_copy_only=False)
        engines = {index: id_ for letter in letters for index, id_ in letter.engines.items()}
        arrays |= {
            "wall_us": pa.array(mono_us + (at.wall_us - at.mono_us)),
            "mono_us": pa.array(mono_us),
            "engine_mono_us": pa.array(tap_us),
            "engine": pa.array(_engine_ids(columns, engines)),
            "outlier": _outliers(columns),
        }
        self._lane.refuse(columns.refused, "negative, or too large", at)
        self._lane.refuse(int(np.count_nonzero(~keep)), "rows without outputs or time", at)
        return to_batch(_STEP, arrays, keep)


def find_indices(session: TapSession, message: Message) -> frozenset[Index]:
    """Return the indices of the engines that a message's steps and finished requests are of."""
    told: set[Index] = {token.engine for token in message.first_tokens}
    told |= {request.engine for request in message.requests if request.source == STATS}
    if message.kind is Kind.STEPS:
        numbers = TapColumns([message]).whole("engine", missing=_NO_ENGINE)
        told |= {None if one >= _NO_ENGINE else one for one in np.unique(numbers).tolist()}
    session.engines.update(index for index in told if index is not None)
    return frozenset(told)


def first_token_rows(letter: Letter, at: Instant) -> Iterator[Row]:
    """Yield the rows of table first_token; those of impossible times are left out."""
    for token in letter.message.first_tokens:
        mono_us = letter.session.clock.mono_of_wall_us(token.wall_us)
        if abs(at.mono_us - mono_us) <= _OLDEST_US:
            yield {
                "wall_us": at.wall_us - at.mono_us + mono_us,
                "engine": letter.engine(token.engine),
                "ttft_us": token.ttft_us,
            }


def _engine_ids(columns: TapColumns, engines: Mapping[Index, int]) -> npt.NDArray[np.uint16]:
    ids = np.zeros(_NO_ENGINE + 1, dtype=np.uint16)
    for index, engine in engines.items():
        ids[_NO_ENGINE if index is None else index] = engine
    return ids[np.minimum(columns.whole("engine", missing=_NO_ENGINE), _NO_ENGINE)]


def _outliers(columns: TapColumns) -> pa.Array:
    main = columns.raw("main")
    if main is None:
        return pa.nulls(columns.rows, ARROW[_STEP.column("outlier").kind])
    is_other: Flags = main == 0
    return pa.array(is_other)
