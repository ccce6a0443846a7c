"""Source token_gaps: every chunk of every answer, as the middleware in the server stamps it.

What clients wait for, stalls of the server's own event loop inside. Rows go from datagram to table
in whole columns: at 100,000 a second nothing may be done per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from collector.source import NoData, Reading, Row, Rows, SourceError
from collector.tap_columns import TapColumns, find_times, groups, join, to_batch
from collector.tap_engines import Index
from collector.tap_hub import Taps
from collector.tap_inbox import Lane
from collector.tap_lane import Letter, TapLane
from collector.tap_request import ASGI, STATS
from collector.tap_request_rows import request_rows
from collector.tap_sessions import TapSession
from collector.tap_wire import Kind, Message
from stallscope.clock import Instant
from stallscope.columns import Kind as ColumnKind
from stallscope.schema import table
from stallscope.units import US_PER_MS, US_PER_SECOND

_GAP = table("token_gap")


class TokenGaps:
    """Gaps between the chunks of answers.

    Args:
        taps: Shared with the other source that reads taps.
        interval_us: Wanted pace; taps send ten times a second.
    """

    name = "token_gaps"
    tables = ("token_gap", "request", "request_name")

    def __init__(self, taps: Taps, *, interval_us: int = 100 * US_PER_MS) -> None:
        self.interval_us = interval_us
        self.deadline_us = 5 * US_PER_SECOND
        self._taps = taps
        self._lane = TapLane(Lane.GAPS, taps, self._find_indices)

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
        # Requests first: what a number stands for is then known before its chunks.
        requests = [row for letter in letters for row in self._requests(letter, at)]
        gaps = [letter for letter in letters if letter.message.kind is Kind.GAPS]
        batches = [self._gaps(letters_of_one, at) for letters_of_one in groups(gaps)]
        return {
            "token_gap": join(_GAP, batches),
            "request": requests,
            "request_name": self._taps.requests.take_names(at.wall_us),
        }

    def _requests(self, letter: Letter, at: Instant) -> Iterator[Row]:
        return request_rows(letter, self._taps.requests, ASGI, at)

    def _gaps(self, letters: Sequence[Letter], at: Instant) -> pa.RecordBatch:
        """Return the rows of one tap's chunks."""
        session = letters[0].session
        columns = TapColumns([letter.message for letter in letters])
        mono_us, keep = find_times(session, columns.whole("mono_us", missing=-1), at.mono_us)
        numbers = columns.whole("request", missing=-1)
        chunks = columns.column("chunk_index", ColumnKind.U32)
        keep &= (numbers >= 0) & chunks.is_valid().to_numpy(zero_copy_only=False)
        arrays = {
            "wall_us": pa.array(mono_us + (at.wall_us - at.mono_us)),
            # A tap hears of no engine per chunk: it is the one behind its server, or one of them.
            "engine": pa.array(np.full(columns.rows, letters[0].engines[None], dtype=np.uint16)),
            "request": pa.array(self._taps.requests.of_numbers(session, numbers)),
            "chunk_index": chunks,
            "itl_us": columns.column("itl_us", ColumnKind.U32),
            "tokens_in_output": columns.column("tokens", ColumnKind.U8),
        }
        self._lane.refuse(columns.refused, "negative, or too large", at)
        self._lane.refuse(int(np.count_nonzero(~keep)), "rows without request or time", at)
        return to_batch(_GAP, arrays, keep)

    def _find_indices(self, session: TapSession, message: Message) -> frozenset[Index]:
        """Return the engines of a message; chunks have none of their own, requests may."""
        if message.kind is Kind.GAPS:
            return frozenset({None})
        for told in message.requests:
            if told.source == STATS:
                self._taps.requests.note_engine(session, told)
        ended = (told for told in message.requests if told.source == ASGI and told.has_ended)
        return frozenset(self._taps.requests.engine_of(session, told) for told in ended)
