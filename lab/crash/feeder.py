"""The process that is killed: feeds a real writer and notes what was acknowledged.

``python -m lab.crash.feeder PLAN`` prints ``ready`` once the lake is open and ``done`` after an
orderly end.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass

from analytics.catalog import library_statements
from collector.runner import CatalogSource
from lab.crash.acks import Ack, AckFile
from lab.crash.numbered import engine_row, gauge_rows, token_rows
from lab.crash.plan import Plan
from lab.report import say
from stallscope.clock import Clock, SystemClock
from stallscope.errors import LakeError
from stallscope.storage.publisher import Publisher
from stallscope.storage.writer import Writer
from stallscope.units import US_PER_SECOND

_TICK_S = 0.01
_FLUSH_EVERY_TICKS = 5
_POLL_S = 0.1
_RESERVED = 100


@dataclass(slots=True)
class Feed:
    """Feeds one run into a writer, at the pace of the real clock.

    Attributes:
        writer: Takes the rows.
        clock: Stamps them.
        run: Their run.
        tokens_per_second: Token rows per real second.
        tokens: Token rows handed in so far.
        polls: Gauge polls handed in so far.
    """

    writer: Writer
    clock: Clock
    run: int
    tokens_per_second: int
    tokens: int = 0
    polls: int = 0
    _last_us: int = 0

    def begin(self) -> None:
        """Hand the run's fact row in."""
        now = self.clock.now()
        self._last_us = now.wall_us
        self.writer.append("engine", [engine_row(self.run, now)])

    def catch_up(self, age_s: float) -> None:
        """Hand in all rows that are due at an age of the run."""
        now = self.clock.now()
        due = int(age_s * self.tokens_per_second) - self.tokens
        if due > 0:
            rows = token_rows(self.run, self.tokens, due, self._last_us, now.wall_us)
            self.writer.append("token_gap", rows)
            self.tokens += due
        self._last_us = now.wall_us
        while self.polls < int(age_s / _POLL_S):
            self.writer.append("block_device", gauge_rows(self.run, self.polls, now))
            self.polls += 1


def feed(plan: Plan) -> None:
    """Feed until the plan's time is over, then close in order.

    Raises:
        LakeError: The lake cannot be opened.
    """
    clock = plan.clock()
    writer = Writer.open(plan.lake, "collect", clock=clock, options=plan.options())
    acks = AckFile(plan.acks)
    stop = threading.Event()
    publisher = Publisher(writer.layout, library_statements())
    thread = threading.Thread(target=_publish, args=(publisher, stop), daemon=True)
    if plan.publish:
        thread.start()
    _print("ready")
    try:
        first_id = writer.reserve("request", _RESERVED)
        _feed(plan, Feed(writer, clock, plan.run, plan.tokens_per_second), acks, first_id)
    finally:
        stop.set()
        writer.close()
        acks.close()
    if plan.publish:
        thread.join()
        publisher.publish_if_changed()
    _print("done")


def _feed(plan: Plan, work: Feed, acks: AckFile, first_id: int) -> None:
    """Hand rows in tick by tick, and note each acknowledgement."""
    work.begin()
    begin = time.monotonic()
    ticks = 0
    while (age := time.monotonic() - begin) < plan.seconds:
        work.catch_up(age)
        ticks += 1
        if ticks % _FLUSH_EVERY_TICKS == 0:
            _acknowledge(work, acks, first_id)
        time.sleep(max(0.0, begin + ticks * _TICK_S - time.monotonic()))
    _acknowledge(work, acks, first_id)


def _acknowledge(work: Feed, acks: AckFile, first_id: int) -> None:
    """Flush and note what is acknowledged; a disk that refuses acknowledges nothing."""
    try:
        work.writer.flush()
    except LakeError:
        return
    dropped = work.writer.health().dropped_rows
    acks.write(Ack(work.run, work.tokens, work.polls, first_id, dropped))


def _publish(publisher: Publisher, stop: threading.Event) -> None:
    """Publish the catalog as the collector does, whatever happens."""
    source = CatalogSource(publisher, SystemClock())
    pace_s = source.interval_us / US_PER_SECOND
    while not stop.wait(pace_s - time.monotonic() % pace_s):
        try:
            source.read()
        except Exception as error:  # noqa: BLE001 - the next round tries again
            say(f"publisher: {error}")


def _print(word: str) -> None:
    """Tell the parent how far we are."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    feed(Plan.from_text(sys.argv[1]))
