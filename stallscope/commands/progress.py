"""Progress of work that takes longer than two seconds, on stderr."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

_SILENT_S = 2.0
_EVERY_S = 1.0


@contextlib.contextmanager
def progress(what: str, limit_s: float | None = None) -> Iterator[None]:
    """Tell how long something takes, and how long it may; only where stderr is a terminal.

    Args:
        what: What is going on.
        limit_s: Seconds after which it is stopped.
    """
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(what, limit_s, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what: str, limit_s: float | None, done: threading.Event) -> None:
    started = time.monotonic()
    if done.wait(_SILENT_S):
        return
    while not done.wait(_EVERY_S):
        sys.stderr.write(f"\r{_line(what, time.monotonic() - started, limit_s)}")
        sys.stderr.flush()
    sys.stderr.write("\r\x1b[K")  # leave nothing behind


def _line(what: str, seconds: float, limit_s: float | None) -> str:
    limit = "" if limit_s is None else f" of at most {limit_s:.0f}"
    return f"{what}: {seconds:.0f}{limit} s, Ctrl-C stops"
