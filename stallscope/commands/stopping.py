"""Ending well: signals become an event, and children end with their supervisor."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from stallscope.sql.sandbox import die_with_parent
from stallscope.supervisor import SUPERVISOR


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM, SIGINT and SIGHUP set; a second Ctrl-C interrupts at once.

    A SIGHUP that somebody chose to ignore (nohup) stays ignored.
    """
    stop = threading.Event()
    # A handler runs between any two steps of the main thread, also inside Event.wait() while that
    # holds the event's lock: set() would wait for itself. SimpleQueue.put() is reentrant.
    received: queue.SimpleQueue[int] = queue.SimpleQueue()

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGINT and stop.is_set():
            raise KeyboardInterrupt
        received.put(number)

    def pass_on() -> None:
        received.get()
        stop.set()

    threading.Thread(target=pass_on, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, note)
    return stop


@contextlib.contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt as Ctrl-C does, so that what we started is ended with us.

    Only the first of them: another one must not cut the ending short.
    """
    numbers = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow_supervisor() -> None:
    """Have this process ended by SIGTERM when the supervisor that started it is gone.

    Nothing happens when no supervisor started it. The supervisor may be gone already; then the
    parent is another process.
    """
    supervisor = os.environ.pop(SUPERVISOR, "")
    if supervisor:
        die_with_parent(signal.SIGTERM)
        if str(os.getppid()) != supervisor:
            signal.raise_signal(signal.SIGTERM)
