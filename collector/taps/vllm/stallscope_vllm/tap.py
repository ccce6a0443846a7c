"""The tap of one process: queues that are filled in line, and the thread that empties them."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import time
from typing import Any

from stallscope_vllm.inline_cost import InlineCost
from stallscope_vllm.outbox import TAP_VERSION, Costs, Outbox
from stallscope_vllm.queues import Queues
from stallscope_vllm.say import say_disabled, say_start
from stallscope_vllm.socket_path import is_switched_off, socket_paths
from stallscope_vllm.worker import Worker

MOST_ERRORS = 20
"""After so many the tap switches itself off: something is different from all that it knows."""

_PAUSE_S = 0.1
_SHORT_PAUSE_S = 0.025  # while a collector is behind: its queue holds ten datagrams
_CLOSE_WAIT_S = 0.3


class Tap:
    """Queues, thread and socket of this process.

    Attributes:
        queues: Where the taps leave records.
        record_cost: In-line cost of the stat logger, per step.
        send_cost: In-line cost of the middleware, per message.
    """

    def __init__(self) -> None:
        self._is_switched_off = is_switched_off()
        self._facts: dict[str, Any] = {"server": None, "port": None, "model": None}
        self.queues = Queues(self.start)
        self._begin_session()
        atexit.register(self.close)

    def _begin_session(self) -> None:
        """Start from nothing: no thread, no socket, empty queues."""
        self.queues.clear()
        self.queues.is_accepting = not self._is_switched_off
        self.record_cost = InlineCost()
        self.send_cost = InlineCost()
        self._errors = 0
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._turning = threading.Lock()
        self._outbox = Outbox(
            socket_paths(), self._facts, lambda: self.queues.refused, self._summarise_costs
        )
        self._worker = Worker(self.queues, self._outbox, self.note_error)

    def after_fork(self) -> None:
        """Let go, in a forked child, of what belongs to the parent.

        The child gets a thread when it has something to tell; most never have.
        """
        self._outbox.delivery.close()
        self._begin_session()

    def next_number(self) -> int:
        """Return the next request's number."""
        return next(self._numbers)

    def learn(self, **facts: Any) -> None:
        """Note facts for the header: server, port, model."""
        self._facts.update(facts)

    def note_error(self) -> None:
        """Count an error of our own; too many end the tap."""
        self._errors += 1
        if self._errors >= MOST_ERRORS:
            self.queues.is_accepting = False

    def start(self) -> None:
        """Start the thread, unless it was started or the tap is switched off."""
        self.queues.is_manned = True
        if self._thread is not None or self._is_switched_off or self._closing.is_set():
            return
        self._thread = threading.Thread(target=self._run, name="stallscope-tap", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the machine gives no thread: the engine runs without the tap
            self._thread = None
            self.queues.is_accepting = False

    def close(self) -> None:
        """Send once what is queued, and end; waits a moment at most."""
        self._closing.set()
        self.queues.is_accepting = False
        if self._thread is not None and self._turning.acquire(timeout=_CLOSE_WAIT_S):
            try:
                self._worker.work()
                self._outbox.flush(time.monotonic_ns())
                self._outbox.delivery.close()
            finally:
                self._turning.release()

    def _run(self) -> None:
        say_start(TAP_VERSION, socket_paths())
        while self._errors < MOST_ERRORS:
            with self._turning:
                if self._closing.is_set():
                    return
                self._turn()
            is_behind = self._outbox.delivery.has_waiting
            self._closing.wait(_SHORT_PAUSE_S if is_behind else _PAUSE_S)
        self.queues.clear()
        say_disabled(self._errors)

    def _turn(self) -> None:
        """Send what has come, and find out whether it is worth while to take more."""
        try:
            self._worker.work()
            now_ns = time.monotonic_ns()
            self._outbox.send_due(now_ns)
            is_given_up = self._outbox.delivery.is_given_up(now_ns)
            self.queues.is_accepting = self._errors < MOST_ERRORS and not is_given_up
        except BaseException:  # noqa: BLE001 - no signal comes to this thread, which has to go on
            self.note_error()

    def _summarise_costs(self) -> Costs:
        return {"record": self.record_cost.summary_us(), "send": self.send_cost.summary_us()}


_shared: list[Tap] = []


def shared_tap() -> Tap:
    """Return the tap of this process; both taps feed the same one."""
    if not _shared:
        _shared.append(Tap())
        os.register_at_fork(after_in_child=_shared[0].after_fork)
    return _shared[0]
