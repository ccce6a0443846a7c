from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from collector.collection import Collection, Outlets
from collector.source import NoData, Reading, Row, Rows, Source, SourceError
from stallscope.clock import SystemClock
from tests.collector.stand_ins import SECOND, MemoryStore, ScriptedSource, one_row, raising


@dataclass
class _Health:
    state: str = "working"
    reason: str = ""
    dropped_rows: int = 0
    refused_rows: int = 0
    seal_us: int = 500


@dataclass
class _Lake:
    """Everything a collection talks to, in memory."""

    store: MemoryStore = field(default_factory=MemoryStore)
    health: _Health = field(default_factory=_Health)
    shown: list[tuple[str, int]] = field(default_factory=list)
    beats: int = 0

    def outlets(self) -> Outlets:
        return Outlets(self.store.append, self._observe, lambda: self.health, self._beat)

    def _observe(self, table: str, rows: Rows, interval_us: int) -> None:
        assert len(rows)
        self.shown.append((table, interval_us))

    def _beat(self) -> None:
        self.beats += 1


@contextmanager
def _running(lake: _Lake, sources: Sequence[Source]) -> Iterator[None]:
    stop = threading.Event()
    collection = Collection(sources, lake.outlets(), SystemClock())
    thread = threading.Thread(target=collection.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive()


def _wait(until: Callable[[], object]) -> None:
    give_up = time.monotonic() + 15
    while not until():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.01)


def _states(lake: _Lake, source: str) -> set[object]:
    return {row["state"] for row in lake.store.health_of(source)}


def test_a_hung_source_is_named_and_holds_nobody_up() -> None:
    release = threading.Event()

    def hang() -> Reading | NoData:
        release.wait(15)
        return one_row()

    lake = _Lake()
    hung = ScriptedSource([hang, one_row], name="hung", deadline_us=200_000)
    fine = ScriptedSource([one_row], name="fine")
    with _running(lake, [hung, fine]):
        _wait(lambda: "hung" in _states(lake, "hung"))
        reads = fine.reads
        _wait(lambda: fine.reads > reads + 10)
        assert hung.most_at_once == 1
        assert hung.reads == 1
        release.set()
        _wait(lambda: {"working", "late"} & _states(lake, "hung"))
    assert _states(lake, "fine") <= {"working", "late"}
    assert hung.most_at_once == 1


def test_a_source_that_never_comes_back_is_left_behind_at_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("collector.collection._LEAVE_S", 0.2)
    release = threading.Event()

    def hang() -> Reading | NoData:
        release.wait(15)
        return one_row()

    hung = ScriptedSource([hang], name="hung", deadline_us=100_000)
    fine = ScriptedSource([one_row], name="fine")
    with _running(_Lake(), [hung, fine]):
        _wait(lambda: hung.reads and fine.reads)
    release.set()
    assert hung.closed == 0
    assert fine.closed == 1
    assert "hung: left behind, its poll does not end" in caplog.messages


def test_a_crash_takes_nobody_down() -> None:
    lake = _Lake()
    bad = ScriptedSource([raising(RuntimeError("boom"))], name="bad")
    fine = ScriptedSource([one_row], name="fine")
    with _running(lake, [bad, fine]):
        _wait(lambda: lake.store.health_of("bad") and lake.store.health_of("fine"))
    assert _states(lake, "bad") == {"failed"}
    assert fine.closed == bad.closed == 1


def test_what_is_read_is_kept_and_shown_with_its_pace() -> None:
    lake = _Lake()
    source = ScriptedSource([one_row], interval_us=20_000)
    with _running(lake, [source]):
        _wait(lambda: source.reads >= 3)
    kept = lake.store.stored["host_pressure"]
    assert len(kept) == source.reads
    assert lake.shown.count(("host_pressure", 20_000)) == source.reads


def test_every_read_and_row_is_in_the_books_when_it_ends() -> None:
    lake = _Lake()
    source = ScriptedSource([one_row, raising(SourceError("no"))], interval_us=50_000)
    with _running(lake, [source]):
        _wait(lambda: source.reads >= 4)
    rows = lake.store.health_of("scripted")
    assert _total(rows, "reads") == source.reads
    assert _total(rows, "rows") == 1
    assert _total(rows, "failures") == source.reads - 1


def test_the_collector_books_itself_and_its_lake_every_second() -> None:
    lake = _Lake()
    with _running(lake, []):
        _wait(lambda: len(lake.store.health_of("collector")) >= 2)
        lake.health = _Health("failed", "sealing: No space left on device", 7, 2)
        _wait(lambda: "failed" in _states(lake, "storage"))
    own = lake.store.health_of("collector")
    assert all(isinstance(row["cpu_us"], int) for row in own)
    assert all(isinstance(row["resident_bytes"], int) for row in own)
    stored = lake.store.health_of("storage")
    assert _total(stored, "dropped") == 7
    assert _total(stored, "rejects") == 2
    assert lake.beats >= 3


def test_a_lake_that_works_with_a_finding_is_partial() -> None:
    lake = _Lake(health=_Health(reason="1 segment set aside"))
    with _running(lake, []):
        _wait(lambda: lake.store.health_of("storage"))
    assert _states(lake, "storage") == {"partial"}


def test_an_error_in_the_books_does_not_end_them(caplog: pytest.LogCaptureFixture) -> None:
    lake = _Lake()

    def broken() -> _Health:
        raise ZeroDivisionError

    outlets = Outlets(lake.store.append, lambda *_: None, broken, lake.outlets().beat)
    stop = threading.Event()
    thread = threading.Thread(
        target=Collection([], outlets, SystemClock()).run, args=(stop,), daemon=True
    )
    thread.start()
    _wait(lambda: lake.beats >= 2)
    stop.set()
    thread.join(10)
    assert [line for line in caplog.messages if "ZeroDivisionError" in line] != []


def test_a_source_that_does_not_close_is_told(caplog: pytest.LogCaptureFixture) -> None:
    class _Stuck(ScriptedSource):
        def close(self) -> None:
            raise OSError("busy")

    stuck = _Stuck([one_row], name="stuck")
    other = ScriptedSource([one_row], name="other")
    with _running(_Lake(), [stuck, other]):
        _wait(lambda: stuck.reads and other.reads)
    assert other.closed == 1
    assert [line for line in caplog.messages if line.startswith("stuck: did not close")] != []


def _total(rows: Sequence[Row], column: str) -> int:
    return sum(value for row in rows if isinstance(value := row[column], int))


def test_slow_sources_stay_fresh_for_their_own_pace() -> None:
    lake = _Lake()
    slow = ScriptedSource([one_row], name="slow", interval_us=10 * SECOND)
    with _running(lake, [slow]):
        _wait(lambda: lake.store.health_of("slow"))
    assert ("source_health", 10 * SECOND) in lake.shown


def test_rows_of_another_pace_are_shown_with_theirs_and_losses_are_counted() -> None:
    def slow() -> Reading:
        return Reading(one_row().rows, dropped=7, interval_us=10 * SECOND)

    lake = _Lake()
    source = ScriptedSource([slow, one_row], name="slow")
    with _running(lake, [source]):
        _wait(lambda: len(lake.shown) > 1 and lake.store.health_of("slow"))
    paces = [interval_us for table, interval_us in lake.shown if table == "host_pressure"]
    assert paces[:2] == [10 * SECOND, source.interval_us]
    assert sum(int(str(row["dropped"])) for row in lake.store.health_of("slow")) == 7
