"""One thread per source: polls at its own pace and survives whatever the poll does."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable

from collector.health import Outcome, Tally
from collector.pace import Pace
from collector.source import NoData, Reading, Receiving, Source, SourceError, State
from stallscope.clock import Clock
from stallscope.units import NS_PER_US, US_PER_SECOND

_LOG = logging.getLogger("stallscope.collect")
_LONGEST_BACKOFF_US = 30 * US_PER_SECOND
_LONGEST_SLEEP_US = US_PER_SECOND  # a source may want another pace while its loop waits
_REST_US = {
    State.NOT_FOUND: 2 * US_PER_SECOND,
    State.GONE: 2 * US_PER_SECOND,
    State.NOT_APPLICABLE: 30 * US_PER_SECOND,
    State.UNSUPPORTED: 30 * US_PER_SECOND,
    State.DISABLED: 30 * US_PER_SECOND,
    State.RESTRICTED: 30 * US_PER_SECOND,
}
"""How soon "no data" is asked again: an engine may start any second, a kernel option may not."""

Deliver = Callable[[Reading], int]
"""Takes a reading's rows and returns how many they were."""


class SourceLoop:
    """Polls one source until told to stop.

    Args:
        source: What to poll. Only this loop's thread ever calls it.
        tally: Where each poll is reported.
        deliver: Where rows go.
        clock: Monotonic time for pace and durations.
    """

    def __init__(self, source: Source, tally: Tally, deliver: Deliver, clock: Clock) -> None:
        self.source = source
        self._tally = tally
        self._deliver = deliver
        self._clock = clock
        self._failures_in_a_row = 0

    def run(self, stop: threading.Event) -> None:
        """Poll on every tick until ``stop`` is set. Never raises."""
        now_us = self._clock.now().mono_us
        pace = Pace(self.source.interval_us, now_us)
        while not stop.wait(min(pace.wait_us(now_us), _LONGEST_SLEEP_US) / US_PER_SECOND):
            now_us = self._clock.now().mono_us
            pace.follow(self.source.interval_us, now_us)
            if pace.wait_us(now_us) > 0:
                continue
            pause_us = self.poll(pace)
            now_us = self._clock.now().mono_us
            pace.rest(now_us, pause_us)
        if isinstance(self.source, Receiving):
            self._poll_last(self.source, pace)

    def poll(self, pace: Pace) -> int:
        """Poll once and report it.

        Returns:
            How long to rest before the next poll beyond its usual pace, in microseconds.
        """
        now_us = self._clock.now().mono_us
        self._tally.begin(now_us, pace.start(now_us))
        cpu_ns = time.thread_time_ns()
        outcome = self._read()
        cpu_us = (time.thread_time_ns() - cpu_ns) // NS_PER_US
        self._tally.end(self._clock.now().mono_us, outcome, cpu_us)
        return self._rest_us(outcome)

    def _poll_last(self, source: Receiving, pace: Pace) -> None:
        """Deliver what somebody was told had arrived since the poll before."""
        try:
            source.stop_receiving()
        except Exception as error:  # noqa: BLE001 - what came is there all the same
            _LOG.warning("%s: still receives: %s", self.source.name, describe_crash(error))
        self.poll(pace)

    def _read(self) -> Outcome:
        try:
            result = self.source.read()
            rows = self._deliver(result) if isinstance(result, Reading) else 0
        except SourceError as error:
            return Outcome(State.FAILED, str(error) or "the poll failed without a word")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a source must not end its thread
            return Outcome(State.FAILED, describe_crash(error))
        return judge(result, rows)

    def _rest_us(self, outcome: Outcome) -> int:
        if not outcome.failed:
            self._failures_in_a_row = 0
            usual_us = _REST_US.get(outcome.state, 0)
            return usual_us if outcome.rest_us is None else outcome.rest_us
        self._failures_in_a_row += 1
        doublings = min(self._failures_in_a_row - 1, 30)
        return min(self.source.interval_us << doublings, _LONGEST_BACKOFF_US)


def judge(result: Reading | NoData, rows: int) -> Outcome:
    """Return the outcome of a poll that came back.

    Args:
        result: What the source returned.
        rows: How many rows were delivered.
    """
    if isinstance(result, NoData):
        return Outcome(result.state, result.reason, rest_us=result.rest_us)
    state = State.PARTIAL if result.reason else State.WORKING
    return Outcome(state, result.reason, rows, result.rejects, dropped=result.dropped)


def describe_crash(error: BaseException) -> str:
    """Return what broke and where, for an error that the source did not foresee."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].name}, line {frames[-1].lineno}" if frames else ""
    return f"unforeseen {type(error).__name__}{place}: {error}"
