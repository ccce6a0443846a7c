"""Log lines for people: UTC time, level, message; a change of state is told once."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from collector.source import State
from stallscope.units import US_PER_SECOND

_LOG = logging.getLogger("stallscope.collect")
_QUIET_US = 10 * US_PER_SECOND
_SAME_STATE_QUIET_US = 60 * US_PER_SECOND
_LEVELS = {
    State.FAILED: logging.WARNING,
    State.HUNG: logging.WARNING,
    State.RESTRICTED: logging.WARNING,
    State.GONE: logging.WARNING,
    State.LATE: logging.WARNING,
    State.PARTIAL: logging.WARNING,
}


def start_logging(level: int = logging.INFO) -> None:
    """Send log lines to stderr, unless the process has its own handlers already.

    Args:
        level: Lowest level that is shown.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    formatter = _OneLine("%(asctime)s UTC %(levelname)s %(message)s", "%H:%M:%S")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    root.addHandler(handler)
    root.setLevel(level)


class _OneLine(logging.Formatter):
    """Keeps what an engine prints in its labels from starting a line or steering a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return "".join(map(_printable, super().format(record)))


def _printable(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


@dataclass(frozen=True, slots=True)
class _Told:
    state: str
    reason: str
    when_us: int


class StateLog:
    """Tells changes of state: at most one line in ten seconds per source.

    A source that flaps is told as it is when the ten seconds are over. A reason that changes while
    the state stays (it may hold a number) is told once a minute.
    """

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}

    def note(self, source: str, state: str, reason: str, now_us: int) -> None:
        """Tell a source's state if it is news.

        Args:
            source: Name of the source.
            state: Its state.
            reason: Why; empty when it is fine.
            now_us: Monotonic time.
        """
        told = self._told.get(source)
        if told is not None:
            if (told.state, told.reason) == (state, reason):
                return
            quiet_us = _QUIET_US if told.state != state else _SAME_STATE_QUIET_US
            if now_us - told.when_us < quiet_us:
                return
        self._told[source] = _Told(state, reason, now_us)
        before = f", was {told.state}" if told is not None and told.state != state else ""
        level = _LEVELS.get(State(state), logging.INFO)
        _LOG.log(level, "%s: %s%s%s", source, state, before, f" - {reason}" if reason else "")
