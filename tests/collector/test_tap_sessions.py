from __future__ import annotations

import pytest

from collector.tap_header import TapHeader, parse_header
from collector.tap_sessions import Loss, TapSessions
from collector.tap_wire import Kind
from stallscope.clock import Instant
from tests.collector.stand_ins import SECOND, WALL

_NOW = Instant(WALL, 1_000 * SECOND)


def _header(session: str = "s", sequence: int = 0, **more: object) -> TapHeader:
    times = {"wall_us": _NOW.wall_us, "mono_us": _NOW.mono_us}
    return parse_header({"session": session, "sequence": sequence, "rows": 0, **times, **more})


def _losses(sessions: TapSessions, *sequences: int, kind: Kind = Kind.GAPS) -> list[int]:
    return [
        sessions.follow(_header(sequence=number), kind, 1, _NOW, counts=True)[1].datagrams
        for number in sequences
    ]


def test_gaps_in_a_sequence_are_lost_datagrams() -> None:
    assert _losses(TapSessions(), 5, 6, 9, 10, 30) == [0, 0, 2, 0, 19]


def test_a_datagram_that_comes_late_or_twice_loses_nothing() -> None:
    assert _losses(TapSessions(), 5, 8, 6, 8, 9) == [0, 2, 0, 0, 0]


def test_kinds_count_apart() -> None:
    sessions = TapSessions()
    assert _losses(sessions, 0, 1) == [0, 0]
    assert _losses(sessions, 70, 71, kind=Kind.STEPS) == [0, 0]


def test_a_look_that_does_not_count_changes_no_count() -> None:
    sessions = TapSessions()
    _losses(sessions, 0)
    _, loss = sessions.follow(_header(sequence=9), Kind.GAPS, 1, _NOW, counts=False)
    assert loss == Loss()
    assert _losses(sessions, 1) == [0]


def test_dropped_records_are_counted_from_the_first_time_on() -> None:
    sessions = TapSessions()
    found = [
        sessions.follow(_header(dropped=dropped), kind, 1, _NOW, counts=True)[1].records
        for dropped, kind in ((100, Kind.GAPS), (103, Kind.STEPS), (103, Kind.GAPS), (0, Kind.GAPS))
    ]
    assert found == [0, 3, 0, 0]


def test_what_a_tap_said_once_stays_known() -> None:
    sessions = TapSessions()
    told = _header(port=8000, model="m", engine_version="0.32.0")
    sessions.follow(told, Kind.STEPS, 1, _NOW, counts=True)
    session, _ = sessions.follow(_header(sequence=1), Kind.STEPS, 1, _NOW, counts=True)
    assert (session.port, session.model, session.engine_version) == (8000, "m", "0.32.0")


def test_a_tap_is_live_for_ten_seconds_by_kind() -> None:
    sessions = TapSessions()
    session, _ = sessions.follow(_header(), Kind.STEPS, 1, _NOW, counts=True)
    assert sessions.live(Kind.STEPS, _NOW.mono_us + 10 * SECOND - 1) == [session]
    assert sessions.live(Kind.STEPS, _NOW.mono_us + 10 * SECOND) == []
    assert sessions.live(Kind.GAPS, _NOW.mono_us) == []


def test_the_longest_silent_are_forgotten() -> None:
    sessions = TapSessions()
    assert not sessions.are_known
    for number in range(200):
        sessions.follow(_header(str(number)), Kind.STEPS, 1, _NOW, counts=True)
        sessions.follow(_header("busy"), Kind.STEPS, 1, _NOW, counts=True)
    alive = sessions.live(Kind.STEPS, _NOW.mono_us)
    assert len(alive) == 64
    assert "busy" in {session.key[1] for session in alive}
    assert sessions.are_known


def test_a_new_tap_is_logged_once_and_strangers_do_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sessions = TapSessions()
    with caplog.at_level("INFO"):
        for number in range(1_000):
            header = _header(str(number), tap="0.1.0", port=8000)
            for _ in range(2):
                sessions.follow(header, Kind.STEPS, 7, _NOW, counts=True)
    assert len(caplog.records) == 256
    assert caplog.records[0].message == (
        "found tap 0.1.0 of process 7, port 8000: its wall clock is 0 us from ours"
    )
