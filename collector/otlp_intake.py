"""Where bodies of spans become requests that wait for the source's next poll."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from collector.otlp_bounds import BodyError, BusyError, ByteBudget
from collector.otlp_spans import Batch, SpanError, TracedRequest, parse_request
from stallscope.clock import Clock

Read = Callable[[bytes], Batch]
"""Returns the spans of a body in one encoding, or raises BodyError."""

_MOST_WAITING = 20_000
_WAIT_S = 1


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of one body, for its sender.

    Attributes:
        rejected: Spans that were refused.
        message: Why, or which values were left out; empty when all is well.
    """

    rejected: int
    message: str


@dataclass(slots=True)
class Arrived:
    """What came since the last poll.

    Attributes:
        requests: Finished requests.
        ignored: Spans of other things.
        rejects: Spans and values that were refused.
        why: The first reason.
    """

    requests: list[TracedRequest] = field(default_factory=list)
    ignored: int = 0
    rejects: int = 0
    why: str = ""

    def refuse(self, count: int, why: str) -> None:
        """Count what was refused."""
        self.rejects += count
        self.why = self.why or why


class Intake:
    """Takes bodies from any thread, one at a time, and hands requests to the poll.

    Args:
        clock: Says when a body came.
        budget: Bytes that may come.
    """

    def __init__(self, clock: Clock, budget: ByteBudget | None = None) -> None:
        self._clock = clock
        self._budget = budget or ByteBudget(clock)
        # Decoding is not interrupted by other senders: then only one body's objects are in memory.
        self._decoding = threading.Lock()
        self._lock = threading.Lock()
        self._arrived = Arrived()

    def admit(self, count: int) -> None:
        """Let a body of so many bytes in, as it came.

        Raises:
            BusyError: Too much came, or nobody fetches what came before.
        """
        if len(self._arrived.requests) > _MOST_WAITING:
            raise BusyError(_WAIT_S)
        self._budget.spend(count)

    def charge(self, count: int) -> None:
        """Note how many bytes more it has when it is unpacked."""
        self._budget.charge(count)

    def take(self, read: Read, body: bytes) -> Taken:
        """Read a body and keep its requests.

        Args:
            read: Decodes it.
            body: Unpacked.

        Raises:
            BodyError: It cannot be read at all.
        """
        with self._decoding:
            batch = _read(read, body)
            if isinstance(batch, str):
                raise BodyError(batch)
            now = self._clock.now()
            requests: list[TracedRequest] = []
            for span in batch.spans:
                try:
                    requests.append(parse_request(span, now))
                except SpanError as error:
                    batch.refuse(str(error))
        values = [text for request in requests for text in request.refused]
        with self._lock:
            self._arrived.requests += requests
            self._arrived.ignored += batch.ignored
            self._arrived.refuse(batch.refused, batch.why)
            self._arrived.refuse(len(values), values[0] if values else "")
        return Taken(batch.refused, _describe(batch, values))

    def refuse(self, why: str) -> None:
        """Count a body that could not be read."""
        with self._lock:
            self._arrived.refuse(1, why)

    def drain(self) -> Arrived:
        """Return what came since the last call."""
        with self._lock:
            arrived, self._arrived = self._arrived, Arrived()
        return arrived


def _read(read: Read, body: bytes) -> Batch | str:
    """Return what a body holds, or why it cannot be read.

    The reason and not the exception: that one keeps what was decoded so far, and its thread may
    hold it for a while when the next body is decoded already.
    """
    try:
        return read(body)
    except BodyError as error:
        return str(error)


def _describe(batch: Batch, values: list[str]) -> str:
    parts = []
    if batch.refused:
        parts.append(f"{batch.refused} spans refused, first: {batch.why}")
    if values:
        parts.append(f"{len(values)} values left out, first: {values[0]}")
    return "; ".join(parts)
