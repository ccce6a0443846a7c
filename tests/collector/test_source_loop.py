from __future__ import annotations

import threading
import time

import pytest

from collector.health import Tally
from collector.pace import Pace
from collector.source import NoData, Reading, Row, SourceError, State
from collector.source_loop import SourceLoop
from stallscope.clock import SystemClock
from tests.collector.stand_ins import SECOND, ManualClock, ScriptedSource, one_row, raising


def _count(reading: Reading) -> int:
    return sum(len(rows) for rows in reading.rows.values())


def _poll(source: ScriptedSource, times: int = 1) -> tuple[Row, list[int]]:
    clock = ManualClock()
    tally = Tally(source.name, source.deadline_us)
    loop = SourceLoop(source, tally, _count, clock)
    rests = [loop.poll(Pace(source.interval_us, clock.mono_us)) for _ in range(times)]
    row = tally.take_row(clock.now())
    assert row is not None
    return row, rests


def test_a_reading_is_delivered_and_reported() -> None:
    row, rests = _poll(ScriptedSource([one_row]))
    assert (row["state"], row["rows"], row["failures"]) == ("working", 1, 0)
    assert rests == [0]


def test_a_reading_with_a_reason_is_partial() -> None:
    row, _ = _poll(ScriptedSource([lambda: Reading({}, rejects=2, reason="1 of 3 disks hidden")]))
    assert (row["state"], row["reason"], row["rejects"]) == ("partial", "1 of 3 disks hidden", 2)


def test_no_data_is_an_answer_and_no_failure() -> None:
    row, rests = _poll(ScriptedSource([lambda: NoData(State.UNSUPPORTED, "no PSI")]))
    assert (row["state"], row["reason"], row["failures"]) == ("unsupported", "no PSI", 0)
    assert rests == [30 * SECOND]


def test_a_source_may_say_how_long_to_rest() -> None:
    answer = NoData(State.DISABLED, "let go of", rest_us=0)
    _, rests = _poll(ScriptedSource([lambda: answer]))
    assert rests == [0]


def test_an_engine_that_is_not_there_is_looked_for_again_soon() -> None:
    _, rests = _poll(ScriptedSource([lambda: NoData(State.NOT_FOUND, "no engine")]))
    assert rests == [2 * SECOND]


def test_a_foreseen_failure_keeps_its_words() -> None:
    row, _ = _poll(ScriptedSource([raising(SourceError("HTTP 500 from 127.0.0.1:8000"))]))
    assert (row["state"], row["reason"]) == ("failed", "HTTP 500 from 127.0.0.1:8000")


@pytest.mark.parametrize("error", [ValueError("boom"), MemoryError(), SystemExit(3)])
def test_an_unforeseen_failure_says_what_broke_and_where(error: BaseException) -> None:
    row, _ = _poll(ScriptedSource([raising(error)]))
    assert row["state"] == "failed"
    assert str(row["reason"]).startswith(f"unforeseen {type(error).__name__} at read, line ")


def test_failures_back_off_up_to_half_a_minute_and_a_success_ends_it() -> None:
    fail = raising(SourceError("no"))
    source = ScriptedSource([fail, fail, fail, one_row, fail], interval_us=100_000)
    _, rests = _poll(source, 5)
    assert rests == [100_000, 200_000, 400_000, 0, 100_000]
    _, rests = _poll(ScriptedSource([fail], interval_us=100_000), 60)
    assert max(rests) == rests[-1] == 30 * SECOND


def test_a_loop_outlives_its_crashes_and_stops_when_told() -> None:
    source = ScriptedSource([raising(RuntimeError("once")), one_row], interval_us=5_000)
    tally = Tally(source.name, source.deadline_us)
    stop = threading.Event()
    loop = SourceLoop(source, tally, _count, SystemClock())
    thread = threading.Thread(target=loop.run, args=(stop,), daemon=True)
    thread.start()
    give_up = time.monotonic() + 10
    while source.reads < 5 and time.monotonic() < give_up:
        time.sleep(0.002)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    row = tally.take_row(SystemClock().now())
    assert row is not None
    assert (row["state"], row["failures"]) == ("working", 1)
    assert row["reads"] == source.reads >= 5


def test_a_loop_follows_a_source_that_wants_another_pace() -> None:
    source = ScriptedSource([one_row], interval_us=3_600 * SECOND)
    stop = threading.Event()
    loop = SourceLoop(source, Tally("scripted", SECOND), _count, SystemClock())
    thread = threading.Thread(target=loop.run, args=(stop,), daemon=True)
    thread.start()
    give_up = time.monotonic() + 20
    while source.reads < 1 and time.monotonic() < give_up:
        time.sleep(0.002)
    source.interval_us = 5_000
    while source.reads < 4 and time.monotonic() < give_up:
        time.sleep(0.002)
    stop.set()
    thread.join(10)
    assert source.reads >= 4


class _ReceivingSource(ScriptedSource):
    """Holds a row that came while nobody looked, until the last reading."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__([self._take], interval_us=3_600 * SECOND)
        self.is_open = True
        self.error = error

    def _take(self) -> Reading:
        return Reading({}) if self.is_open else one_row()

    def stop_receiving(self) -> None:
        self.is_open = False
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [None, OSError("still open")])
def test_what_was_received_before_the_end_is_read_at_the_end(error: Exception | None) -> None:
    source = _ReceivingSource(error)
    tally = Tally(source.name, source.deadline_us)
    stop = threading.Event()
    stop.set()
    SourceLoop(source, tally, _count, SystemClock()).run(stop)
    row = tally.take_row(SystemClock().now())
    assert row is not None
    assert (source.reads, row["rows"], row["state"]) == (1, 1, "working")


def test_a_source_that_nobody_sends_to_is_not_read_at_the_end() -> None:
    source = ScriptedSource([one_row], interval_us=3_600 * SECOND)
    stop = threading.Event()
    stop.set()
    SourceLoop(source, Tally(source.name, source.deadline_us), _count, SystemClock()).run(stop)
    assert source.reads == 0
