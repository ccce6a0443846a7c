from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.clock_event import ClockEvent
from collector.edges.kernel_clock import is_synchronised
from collector.source import Machine, Row
from stallscope.clock import Instant
from stallscope.schema import table
from tests.collector.fake_machine import FakeMachine, row_of, rows_of
from tests.collector.stand_ins import SECOND, WALL


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    fake = FakeMachine(tmp_path)
    fake.write("proc/sys/kernel/random/boot_id", "9f0c\n")
    return fake


def _source(fake: FakeMachine, *, synchronised: bool | None = True) -> ClockEvent:
    return ClockEvent(fake.machine, synchronised=lambda: synchronised)


def _poll(fake: FakeMachine, source: ClockEvent, *, step_us: int = 0) -> list[tuple[object, ...]]:
    fake.clock.advance(SECOND)
    fake.clock.wall_offset_us += step_us
    return [(row["kind"], row["step_us"]) for row in rows_of(source)]


def test_the_first_poll_tells_how_both_clocks_relate(fake: FakeMachine) -> None:
    row = row_of(_source(fake))
    assert row == {
        "wall_us": WALL + fake.clock.mono_us,
        "mono_us": fake.clock.mono_us,
        "kind": "start",
        "boot_id": "9f0c",
        "wall_minus_mono_us": WALL,
        "step_us": None,
        "detail": None,
    }
    assert set(row) == {column.name for column in table("clock_event").columns}


def test_a_quiet_clock_has_no_events(fake: FakeMachine) -> None:
    source = _source(fake)
    rows_of(source)
    assert [_poll(fake, source) for _ in range(3)] == [[], [], []]


@pytest.mark.parametrize("step_us", [3600 * SECOND, -3600 * SECOND, 50_001, -50_001])
def test_a_step_is_told_once_with_its_size(fake: FakeMachine, step_us: int) -> None:
    source = _source(fake)
    rows_of(source)
    assert _poll(fake, source, step_us=step_us) == [("step", step_us)]
    assert _poll(fake, source) == []


def test_slewing_is_no_step_however_long_it_goes_on(fake: FakeMachine) -> None:
    source = _source(fake)
    rows_of(source)
    assert [_poll(fake, source, step_us=500) for _ in range(1000)] == [[]] * 1000


class _Hiccups:
    """A clock whose reader was put to sleep between both clocks, once."""

    def __init__(self, instants: list[Instant]) -> None:
        self._instants: Iterator[Instant] = iter(instants)

    def now(self) -> Instant:
        return next(self._instants)


def test_a_pause_between_reading_both_clocks_is_no_step(fake: FakeMachine) -> None:
    # asleep for 80 ms after the wall clock was read, so the monotonic clock ran ahead
    clock = _Hiccups(
        [Instant(WALL, 0), Instant(WALL + SECOND, SECOND + 80_000), Instant(WALL + 2, 2)]
    )
    machine = Machine(fake.proc, fake.sys, "host-1", clock, fake.machine.names)
    source = ClockEvent(machine, synchronised=lambda: None)
    assert len(rows_of(source)) == 1
    assert rows_of(source) == []


def test_a_machine_that_boots_in_1970_is_unsynchronised_until_its_clock_is_set(
    fake: FakeMachine,
) -> None:
    fake.clock.wall_offset_us = 0
    source = _source(fake)
    first: list[Row] = list(rows_of(source))
    assert [row["kind"] for row in first] == ["start", "unsynchronised"]
    assert first[1]["detail"] == "the wall clock is before 2015, so it was never set"
    assert _poll(fake, source) == []
    assert _poll(fake, source, step_us=WALL) == [("step", WALL), ("synchronised", None)]


def test_a_clock_that_no_service_keeps_is_told(fake: FakeMachine) -> None:
    answers = iter([True, True, False, False, True])
    source = ClockEvent(fake.machine, synchronised=lambda: next(answers))
    rows_of(source)
    kinds = [[row[0] for row in _poll(fake, source)] for _ in range(4)]
    assert kinds == [[], ["unsynchronised"], [], ["synchronised"]]


def test_where_the_kernel_cannot_be_asked_nothing_is_claimed(fake: FakeMachine) -> None:
    assert [row["kind"] for row in rows_of(_source(fake, synchronised=None))] == ["start"]


def test_a_hidden_boot_id_is_unknown(tmp_path: Path) -> None:
    assert row_of(_source(FakeMachine(tmp_path)))["boot_id"] == "unknown"


def test_the_kernel_of_this_machine_answers_or_declines() -> None:
    assert is_synchronised() in {True, False, None}


class _Libc:
    """A C library whose adjtimex gives one answer; none when it is a sandbox's or another libc."""

    def __init__(self, answer: int) -> None:
        self._answer = answer

    def adjtimex(self, _: object) -> int:
        return self._answer


@pytest.mark.parametrize("libc", [_Libc(-1), object()])
def test_a_kernel_that_cannot_be_asked_is_unknown(
    libc: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: libc)
    assert is_synchronised() is None
