"""What the event loop leaves behind for the tap's thread: bounded, and filled without waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from stallscope_vllm.exchange import Exchange

MOST_STEPS = 512  # with their lists about 1.5 MB at 16 requests a step
MOST_CHUNKS = 8_192  # rows of numbers, about 2 MB
MOST_REQUESTS = 2_048
MOST_OPEN = 16_384


class Queues:
    """Takes records in line; a deque's append and popleft are whole without a lock.

    Args:
        start: Starts the thread that empties them.

    Attributes:
        is_accepting: Whether records are taken at all.
        is_manned: Whether the thread has been started.
        refused: Records that were not taken.
        steps: Values of each Step.
        chunks: Rows of kind gaps.
        begun: Requests whose id became known.
        ended: Requests that ended.
        open: Those that have begun and not ended, by number.
    """

    def __init__(self, start: Callable[[], None]) -> None:
        self._start = start
        self.is_accepting = True
        self.is_manned = False
        self.refused = 0
        self.steps: deque[tuple[Any, ...]] = deque()
        self.chunks: deque[tuple[int, ...]] = deque()
        self.begun: deque[Exchange] = deque()
        self.ended: deque[Exchange] = deque()
        self.open: dict[int, Exchange] = {}

    def offer_step(self, *values: Any) -> None:
        """Queue a step: the values of a Step."""
        if self._has_room(self.steps, MOST_STEPS):
            self.steps.append(values)

    def offer_chunk(self, row: tuple[int, ...]) -> None:
        """Queue a row of kind gaps."""
        if self._has_room(self.chunks, MOST_CHUNKS):
            self.chunks.append(row)

    def begin(self, exchange: Exchange) -> None:
        """Queue the beginning of a request."""
        if len(self.open) < MOST_OPEN:
            self.open[exchange.number] = exchange
        if self._has_room(self.begun, MOST_REQUESTS):
            self.begun.append(exchange)

    def end(self, exchange: Exchange) -> None:
        """Queue the end of a request."""
        self.open.pop(exchange.number, None)
        if self._has_room(self.ended, MOST_REQUESTS):
            self.ended.append(exchange)

    def clear(self) -> None:
        """Forget everything, the counts as well."""
        for queue in (self.steps, self.chunks, self.begun, self.ended):
            queue.clear()
        self.open.clear()
        self.refused = 0
        self.is_manned = False

    def _has_room(self, queue: deque[Any], most: int) -> bool:
        if not self.is_accepting or len(queue) >= most:
            self.refused += 1
            return False
        if not self.is_manned:
            self.is_manned = True
            self._start()
        return True
