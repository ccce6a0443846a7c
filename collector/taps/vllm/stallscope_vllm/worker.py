"""The work of the tap's thread: from what is queued to datagrams, a tenth of a second at once.

In short slices with real pauses between: while the thread holds the interpreter lock the event loop
waits, and that would be the very stall we look for.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from stallscope_vllm.outbox import Outbox
from stallscope_vllm.queues import Queues
from stallscope_vllm.request_facts import read_finished
from stallscope_vllm.step_rows import Step, StepRows
from stallscope_vllm.wire import GAPS, REQUESTS, STEPS

_SLICE_ROWS = 256  # each slice takes about 0.1 ms
_SLICE_OBJECTS = 8
_SLICE_PAUSE_S = 0.0002


class Worker:
    """Empties the queues of one session into its outbox.

    Args:
        queues: What was left in line.
        outbox: Takes rows.
        note_error: Called for each step that could not be read.
    """

    def __init__(self, queues: Queues, outbox: Outbox, note_error: Callable[[], None]) -> None:
        self._queues = queues
        self._outbox = outbox
        self._note_error = note_error
        self._step_rows = StepRows()
        self._last_iteration: Any = None
        self._objects = 0
        self._told_connections = 0

    def work(self) -> None:
        """Turn all that is queued by now into rows.

        Chunks are counted first, so that the announcement of their requests goes before them.
        """
        chunks = len(self._queues.chunks)
        self._take_requests()
        for values in _taken(self._queues.steps):
            self._breathe()
            self._try_step(values)
        for begin in range(0, chunks, _SLICE_ROWS):
            count = min(_SLICE_ROWS, chunks - begin)
            self._outbox.add(GAPS, *_taken(self._queues.chunks, count))
            time.sleep(_SLICE_PAUSE_S)

    def _take_requests(self) -> None:
        connections = self._outbox.delivery.connections
        begun = _taken(self._queues.begun)
        if connections != self._told_connections:
            # A collector that was restarted does not know the numbers of what is going on.
            self._told_connections = connections
            begun = list(dict.fromkeys([*begun, *self._queues.open.values()]))
        for exchange in begun:
            self._add_request(exchange.announcement())
        for exchange in _taken(self._queues.ended):
            self._add_request(exchange.conclusion())

    def _try_step(self, values: tuple[Any, ...]) -> None:
        """Turn one step into rows; a bad one is lost and counted, its neighbours go on."""
        try:
            self._take_step(Step(*values))
        except BaseException:  # noqa: BLE001 - objects of a foreign program may raise anything
            self._outbox.lost += 1
            self._note_error()

    def _take_step(self, step: Step) -> None:
        if step.iteration is None and step.scheduler is None:
            return
        if step.iteration is not None and step.iteration is self._last_iteration:
            raise ValueError("vLLM uses its stats object again: what was queued has changed")
        self._last_iteration = step.iteration
        self._outbox.add_first_tokens(list(step.first_tokens()))
        self._outbox.add(STEPS, *self._step_rows.make(step))
        wall_us, mono_us = step.times_us()
        for stats in step.finished():
            self._add_request(read_finished(stats, step.engine, wall_us, mono_us))

    def _add_request(self, request: dict[str, Any]) -> None:
        self._outbox.add(REQUESTS, request)
        self._breathe()

    def _breathe(self) -> None:
        """Let the event loop have the interpreter after some objects."""
        self._objects += 1
        if self._objects % _SLICE_OBJECTS == 0:
            time.sleep(_SLICE_PAUSE_S)


def _taken(queue: deque[Any], most: int | None = None) -> list[Any]:
    """Take what is in the queue by now, in order."""
    count = len(queue) if most is None else most
    return [queue.popleft() for _ in range(count)]
