from __future__ import annotations

from collector.tap_inbox import Arrival, Lane, TapInbox
from collector.tap_wire import Kind
from lab.synthetic.tap_datagrams import TapSender
from tests.collector.stand_ins import ManualClock

_NOW = ManualClock().now()


def _arrival(data: bytes, pid: int = 1) -> Arrival:
    return Arrival(data, pid, _NOW)


def _gaps(rows: int = 1) -> bytes:
    return TapSender().gaps({"request": ("I", [1] * rows)}, 1, 1)


def test_each_source_gets_its_own_and_both_get_requests() -> None:
    inbox = TapInbox()
    sender = TapSender()
    steps = sender.steps({}, 1, 1)
    requests = sender.requests([], 1, 1)
    for data in (_gaps(), steps, requests, b"noise"):
        inbox.put(_arrival(data))
    lanes = {lane: [one.data for one in inbox.take(lane).arrivals] for lane in Lane}
    assert lanes == {Lane.STEPS: [steps, requests, b"noise"], Lane.GAPS: [_gaps(), requests]}
    assert inbox.take(Lane.GAPS).arrivals == []


def test_the_newest_are_dropped_and_counted_by_sender_with_their_rows() -> None:
    inbox = TapInbox(limit_bytes=3_000)
    for number in range(10):
        inbox.put(_arrival(_gaps(rows=7), pid=number % 2))
    taken = inbox.take(Lane.GAPS)
    kept = len(taken.arrivals)
    assert 0 < kept < 10
    assert [one.pid for one in taken.arrivals] == [number % 2 for number in range(kept)]
    assert sum(taken.lost.values()) == 10 - kept
    assert set(taken.lost) == {(0, Kind.GAPS), (1, Kind.GAPS)}
    assert taken.lost_rows == 7 * (10 - kept)
    assert inbox.take(Lane.GAPS).lost_rows == 0


def test_room_is_given_back() -> None:
    inbox = TapInbox(limit_bytes=3_000)
    for _ in range(50):
        inbox.put(_arrival(_gaps()))
        taken = inbox.take(Lane.GAPS)
        assert (len(taken.arrivals), taken.lost_rows) == (1, 0)


def test_datagrams_without_a_byte_take_room_too() -> None:
    inbox = TapInbox(limit_bytes=10_000)
    for _ in range(1_000):
        inbox.put(_arrival(b""))
    taken = inbox.take(Lane.STEPS)
    assert len(taken.arrivals) < 50
    assert len(taken.arrivals) + sum(taken.lost.values()) == 1_000


def test_much_is_taken_in_parts() -> None:
    inbox = TapInbox()
    data = _gaps(rows=30_000)
    for _ in range(40):
        inbox.put(_arrival(data))
    first = len(inbox.take(Lane.GAPS).arrivals)
    assert 0 < first < 40
    rest = 0
    while more := len(inbox.take(Lane.GAPS).arrivals):
        rest += more
    assert first + rest == 40
