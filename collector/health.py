"""What became of each source: polls add up here and turn into rows of source_health."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from collector.pace import Start
from collector.source import Row, State
from stallscope.clock import Instant
from stallscope.units import US_PER_SECOND

_U32_MAX = 2**32 - 1
FINE = frozenset({State.WORKING, State.PARTIAL})
"""States in which a source delivers."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one poll came to.

    Attributes:
        state: In one word.
        reason: In one sentence; empty when all went well.
        rows: Rows taken.
        rejects: Input lines refused.
        rest_us: How long to rest after it; None for what is usual in that state.
        dropped: Rows thrown away.
    """

    state: State
    reason: str = ""
    rows: int = 0
    rejects: int = 0
    rest_us: int | None = None
    dropped: int = 0

    @property
    def failed(self) -> bool:
        """Whether the poll failed, as opposed to having nothing to say."""
        return self.state is State.FAILED


@dataclass(slots=True)
class _Sums:
    """What has added up since the last row."""

    reads: int = 0
    rows: int = 0
    rejects: int = 0
    dropped: int = 0
    failures: int = 0
    skipped: int = 0
    read_us: int = 0
    read_max_us: int = 0
    cpu_us: int = 0
    lag_us: int | None = None


class Tally:
    """Health of one source; its own thread reports polls, the runner takes rows.

    Args:
        source: Name of the source.
        deadline_us: After this long a poll counts as hung.
    """

    def __init__(self, source: str, deadline_us: int) -> None:
        self.source = source
        self._deadline_us = deadline_us
        self._lock = threading.Lock()
        self._sums = _Sums()
        self._last: Outcome | None = None
        self._shown: State | None = None
        self._began_us: int | None = None

    def begin(self, now_us: int, start: Start) -> None:
        """Note that a poll begins.

        Args:
            now_us: Monotonic time.
            start: How it stands against its plan.
        """
        with self._lock:
            self._began_us = now_us
            self._sums.lag_us = start.lag_us
            self._sums.skipped += start.skipped

    def end(self, now_us: int, outcome: Outcome, cpu_us: int) -> None:
        """Note that the poll is over.

        Args:
            now_us: Monotonic time.
            outcome: What it came to.
            cpu_us: CPU time that its thread took.
        """
        with self._lock:
            took_us = now_us - (self._began_us if self._began_us is not None else now_us)
            self._began_us = None
            self._last = outcome
            sums = self._sums
            sums.reads += 1
            sums.rows += outcome.rows
            sums.rejects += outcome.rejects
            sums.dropped += outcome.dropped
            sums.failures += outcome.failed
            sums.read_us += took_us
            sums.read_max_us = max(sums.read_max_us, took_us)
            sums.cpu_us += cpu_us

    def take_row(self, now: Instant) -> Row | None:
        """Return the row of source_health since the one before, and start the next.

        Returns:
            None while a source is fine and was not due: then there is nothing to say.
        """
        with self._lock:
            outcome = self._judge(now.mono_us)
            quiet = self._sums.reads == 0 and outcome is not None and outcome.state in FINE
            if outcome is None or (quiet and outcome.state is self._shown):
                return None
            self._shown = outcome.state
            sums, self._sums = self._sums, _Sums()
        return _row(self.source, now, outcome, sums)

    def _judge(self, now_us: int) -> Outcome | None:
        """Return the state as it stands: a poll that does not come back hides the last result."""
        if self._began_us is not None and now_us - self._began_us > self._deadline_us:
            took_s = (now_us - self._began_us) / US_PER_SECOND
            limit_s = self._deadline_us / US_PER_SECOND
            reason = f"a poll has run for {took_s:.0f} s, its deadline is {limit_s:g} s"
            return Outcome(State.HUNG, reason)
        if self._last is None or self._last.state not in FINE:
            return self._last
        if self._sums.skipped > self._sums.reads:
            reason = f"{self._sums.skipped} of its ticks were skipped, {self._sums.reads} were kept"
            return Outcome(State.LATE, reason)
        return self._last


def _row(source: str, now: Instant, outcome: Outcome, sums: _Sums) -> Row:
    """Return a source_health row."""
    return {
        "wall_us": now.wall_us,
        "mono_us": now.mono_us,
        "source": source,
        "state": outcome.state.value,
        "reason": outcome.reason or None,
        "reads": sums.reads,
        "rows": sums.rows,
        "rejects": sums.rejects,
        "failures": sums.failures,
        "dropped": _bounded(sums.dropped),
        "read_mean_us": _bounded(sums.read_us // sums.reads) if sums.reads else None,
        "read_max_us": _bounded(sums.read_max_us) if sums.reads else None,
        "lag_us": None if sums.lag_us is None else _bounded(sums.lag_us),
        "cpu_us": _bounded(sums.cpu_us),
    }


def service_row(source: str, now: Instant, outcome: Outcome, columns: Mapping[str, object]) -> Row:
    """Return a row for a part of the collector that is not polled, such as the lake's writer.

    Args:
        source: Its name.
        now: Both clocks.
        outcome: Its state.
        columns: Columns of source_health that it knows; the others are empty.
    """
    return {**_row(source, now, outcome, _Sums()), "cpu_us": None, **columns}


def _bounded(number: int) -> int:
    """Return a number that fits its uint32 column: a poll may hang for longer than 71 minutes."""
    return min(number, _U32_MAX)
