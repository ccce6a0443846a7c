"""All sources at work: a thread each, and once a second the books."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from collector.edges.own_process import OwnCost, read_own_cost
from collector.health import Outcome, Tally, service_row
from collector.log_lines import StateLog
from collector.pace import Pace, Start
from collector.source import Reading, Row, Rows, Source, State
from collector.source_loop import Deliver, SourceLoop, describe_crash
from stallscope.clock import Clock, Instant
from stallscope.units import US_PER_SECOND

_LOG = logging.getLogger("stallscope.collect")
_LEAVE_S = 5.0  # a poll in progress gets so long to end; then the process goes without it

Append = Callable[[str, Rows], None]
"""Keeps rows of a table; never blocks for long and never raises on disk trouble."""

Observe = Callable[[str, Rows, int], None]
"""Shows rows of a table at /metrics; the last argument is the pace of their source."""


class StoreHealth(Protocol):
    """What the lake's writer says of itself."""

    @property
    def state(self) -> str:
        """A state of source_health."""

    @property
    def reason(self) -> str:
        """Why, empty when it is fine."""

    @property
    def dropped_rows(self) -> int:
        """Rows thrown away for want of room, since it was opened."""

    @property
    def refused_rows(self) -> int:
        """Rows that did not fit the schema, since it was opened."""

    @property
    def seal_us(self) -> int:
        """How long the last seal took."""


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where rows go and what is asked about it.

    Attributes:
        append: Takes rows to the lake.
        observe: Takes rows to /metrics.
        store_health: Returns the state of the lake's writer.
        beat: Called each time the main loop comes by.
    """

    append: Append
    observe: Observe
    store_health: Callable[[], StoreHealth]
    beat: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Worker:
    source: Source
    tally: Tally
    thread: threading.Thread


class Collection:
    """Runs sources side by side: none waits for another, none takes another down.

    Args:
        sources: What is read.
        outlets: Where rows go.
        clock: Stamps and paces.
    """

    def __init__(self, sources: Sequence[Source], outlets: Outlets, clock: Clock) -> None:
        self._outlets = outlets
        self._clock = clock
        self._stop = threading.Event()
        self._states = StateLog()
        self._books = _Books(outlets.store_health, read_own_cost())
        self._workers = [self._worker(source) for source in sources]

    def run(self, stop: threading.Event) -> None:
        """Collect until ``stop`` is set, then close every source.

        A source whose poll hangs is left behind: nobody else may touch it.
        """
        for worker in self._workers:
            worker.thread.start()
        pace = Pace(US_PER_SECOND, self._clock.now().mono_us + US_PER_SECOND)
        try:
            while not stop.wait(pace.wait_us(self._clock.now().mono_us) / US_PER_SECOND):
                now = self._clock.now()
                self._turn(now, pace.start(now.mono_us))
        finally:
            self._close()

    def _worker(self, source: Source) -> _Worker:
        tally = Tally(source.name, source.deadline_us)
        loop = SourceLoop(source, tally, self._deliverer(source), self._clock)
        thread = threading.Thread(
            target=loop.run, args=(self._stop,), name=f"source-{source.name}", daemon=True
        )
        return _Worker(source, tally, thread)

    def _deliverer(self, source: Source) -> Deliver:
        def deliver(reading: Reading) -> int:
            taken = 0
            for table, rows in reading.rows.items():
                if len(rows):
                    self._outlets.append(table, rows)
                    pace_us = reading.interval_us or source.interval_us
                    self._outlets.observe(table, rows, pace_us)
                    taken += len(rows)
            return taken

        return deliver

    def _turn(self, now: Instant, start: Start) -> None:
        """Do the books of one second; an error in it must not end the loop."""
        try:
            self._note(self._books.rows(now, start), now, US_PER_SECOND)
            for worker in self._workers:
                row = worker.tally.take_row(now)
                if row is not None:
                    self._note([row], now, max(worker.source.interval_us, US_PER_SECOND))
        except Exception as error:  # noqa: BLE001 - the sidecar outlives its own mistakes
            reason = describe_crash(error)
            self._states.note("collector", State.FAILED.value, reason, now.mono_us)
        self._outlets.beat()

    def _note(self, rows: Sequence[Row], now: Instant, interval_us: int) -> None:
        self._outlets.append("source_health", rows)
        self._outlets.observe("source_health", rows, interval_us)
        for row in rows:
            state, reason = str(row["state"]), str(row["reason"] or "")
            self._states.note(str(row["source"]), state, reason, now.mono_us)

    def _close(self) -> None:
        self._stop.set()
        give_up_s = time.monotonic() + _LEAVE_S
        for worker in self._workers:
            worker.thread.join(max(0.0, give_up_s - time.monotonic()))
            if worker.thread.is_alive():
                _LOG.warning("%s: left behind, its poll does not end", worker.source.name)
            else:
                _close_source(worker.source)
        now = self._clock.now()
        self._turn(now, Start(0, 0))


class _Books:
    """What the collector itself costs and how its lake is, row by row.

    Args:
        store_health: Returns the state of the lake's writer.
        cost: Cost of the process so far.
    """

    def __init__(self, store_health: Callable[[], StoreHealth], cost: OwnCost) -> None:
        self._store_health = store_health
        self._cost = cost
        self._dropped_rows = self._refused_rows = 0

    def rows(self, now: Instant, start: Start) -> list[Row]:
        """Return a row for the process and one for the lake's writer, since the rows before."""
        return [self._process_row(now, start), self._store_row(now)]

    def _process_row(self, now: Instant, start: Start) -> Row:
        before, self._cost = self._cost, read_own_cost()
        columns = {
            "cpu_us": max(0, self._cost.cpu_us - before.cpu_us),
            "resident_bytes": self._cost.resident_bytes,
            "lag_us": start.lag_us,
        }
        return service_row("collector", now, Outcome(State.WORKING), columns)

    def _store_row(self, now: Instant) -> Row:
        health = self._store_health()
        columns = {
            "dropped": health.dropped_rows - self._dropped_rows,
            "rejects": health.refused_rows - self._refused_rows,
            "read_max_us": health.seal_us,
        }
        self._dropped_rows, self._refused_rows = health.dropped_rows, health.refused_rows
        outcome = Outcome(_store_state(health), health.reason)
        return service_row("storage", now, outcome, columns)


def _store_state(health: StoreHealth) -> State:
    """Return the writer's state; one that works with a finding is partial."""
    state = State(health.state)
    return State.PARTIAL if state is State.WORKING and health.reason else state


def _close_source(source: Source) -> None:
    try:
        source.close()
    except Exception as error:  # noqa: BLE001 - the others still want closing
        _LOG.warning("%s: did not close: %s", source.name, describe_crash(error))
