"""One HTTP request and its answer, as the event loop sees them go by.

What a chunk tells is read in line: it takes two microseconds, while to hand the chunk to a thread
takes the interpreter lock away from the event loop for longer than that.
"""

from __future__ import annotations

from typing import Any

from stallscope_vllm.chunk_reading import (
    PLAIN_ENDS,
    clip,
    find_choice,
    find_finish,
    find_id,
    find_usage,
    has_output,
)
from stallscope_vllm.request_facts import EMPTY
from stallscope_vllm.wire import MISSING, whole

_NS_PER_US = 1_000
_FIRST_ERROR = 400  # HTTP status
_NO_TIME: int = MISSING["I"]
_NO_COUNT: int = MISSING["B"]


class Exchange:
    """The state of one request; small, and at most one chunk of the answer is held.

    Args:
        number: Tap-local number.
        route: Path of the request.
        wall_ns: Its arrival, wall clock.
        mono_ns: Its arrival, monotonic.

    Attributes:
        status: HTTP status of the answer.
        is_streamed: The answer is a stream of events.
        is_aborted: The client went away, or the app broke off.
        id: The engine's id of the request, once the answer has told it.
    """

    __slots__ = (
        "_choice_place",
        "_chunks",
        "_end_us",
        "_finish",
        "_first_us",
        "_last_output",
        "_last_us",
        "_usage",
        "arrival_mono_us",
        "arrival_wall_us",
        "id",
        "is_aborted",
        "is_streamed",
        "number",
        "route",
        "status",
    )

    def __init__(self, number: int, route: str, wall_ns: int, mono_ns: int) -> None:
        self.number = number
        self.route = route
        self.arrival_wall_us = wall_ns // _NS_PER_US
        self.arrival_mono_us = mono_ns // _NS_PER_US
        self.status: int | None = None
        self.is_streamed = False
        self.is_aborted = False
        self.id: str | None = None
        self._chunks = 0
        self._first_us: int | None = None
        self._last_us: int | None = None
        self._end_us: int | None = None
        self._choice_place = -1
        self._last_output: bytes = b""
        self._finish: str | None = None
        self._usage: dict[str, int] = {}

    def stamp(self, body: Any, now_ns: int) -> tuple[int, ...]:
        """Return the row of one chunk of a streamed answer.

        Args:
            body: The chunk; what is not bytes is stamped and not looked into.
            now_ns: When it is sent, monotonic.
        """
        index = self._chunks
        self._chunks = index + 1
        now_us = now_ns // _NS_PER_US
        if self._first_us is not None and type(body) is bytes and body.endswith(PLAIN_ENDS):
            tokens = _NO_COUNT
            self._last_output = body
        else:
            tokens = self._read(body)
        gap_us = self._gap(now_us) if tokens else _NO_TIME
        return (self.number, index, now_us, gap_us, tokens, len(body))

    def read_answer(self, body: Any) -> None:
        """Learn what an answer in one piece tells; an error may quote what the client sent."""
        is_error = self.status is not None and self.status >= _FIRST_ERROR
        if is_error or type(body) is not bytes:
            return
        kept = clip(body)
        self.id = find_id(kept)
        self._finish = find_finish(kept)
        self._usage = find_usage(kept)

    def end(self, now_ns: int) -> None:
        """Note that the last message was sent, or that none will come."""
        self._end_us = now_ns // _NS_PER_US

    def announcement(self) -> dict[str, Any]:
        """Return the object that tells of the request while it runs."""
        return {
            **EMPTY,
            "source": "asgi",
            "number": self.number,
            "id": self.id,
            "route": self.route,
            "status": self.status,
            "arrival_wall_us": self.arrival_wall_us,
            "arrival_mono_us": self.arrival_mono_us,
        }

    def conclusion(self) -> dict[str, Any]:
        """Return the object that closes the request; ``end_mono_us`` is set in this one only."""
        end_us = self.arrival_mono_us if self._end_us is None else self._end_us
        first_us = self._first_us
        finish = self._finish or find_finish(clip(self._last_output)) or self._plain_finish()
        return {
            **self.announcement(),
            **self._usage,
            "finish": finish,
            "aborted": self.is_aborted,
            "end_mono_us": end_us,
            "ttft_us": None if first_us is None else first_us - self.arrival_mono_us,
            "e2e_us": end_us - self.arrival_mono_us,
            "chunks": self._chunks if self.is_streamed else None,
        }

    def _read(self, body: Any) -> int:
        """Look into a chunk that is no plain output; return its tokens as the column has them."""
        if type(body) is not bytes:
            return _NO_COUNT
        chunk = clip(body)
        if self.id is None:
            self.id = find_id(chunk)
        usage = find_usage(chunk)
        if not has_output(chunk, is_opening=self._first_us is None):
            self._finish = self._finish or find_finish(chunk)
            self._usage = usage or self._usage
            return 0
        if self._first_us is None:
            self._choice_place = find_choice(chunk)
        self._last_output = chunk
        return self._count(usage) if usage else _NO_COUNT

    def _count(self, usage: dict[str, int]) -> int:
        """Return the chunk's tokens; every chunk has a usage block under continuous_usage_stats."""
        before = self._usage.get("output_tokens", 0)
        self._usage = usage
        # A chunk of output has at least one token: 0 would say that it is none.
        return whole(max(1, usage.get("output_tokens", 0) - before), "B")

    def _gap(self, now_us: int) -> int:
        """Return the pause since the output before.

        Of several choices (n > 1) only the first is followed: theirs come in one step, side by
        side, and the time between two of them is no pause.
        """
        place = self._choice_place
        if self._first_us is None:
            self._first_us = now_us
        if place >= 0 and self._last_output[place : place + 2] != b"0,":
            return _NO_TIME
        last_us = self._last_us
        self._last_us = now_us
        if last_us is None or now_us - last_us >= _NO_TIME:
            return _NO_TIME
        return now_us - last_us

    def _plain_finish(self) -> str | None:
        """Return how it ended when no chunk told."""
        if self.is_aborted:
            return "abort"
        return "error" if self.status is not None and self.status >= _FIRST_ERROR else None
