"""The receiving thread at a real socket: both sides may come, go and come again."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.edges.tap_socket import TapSocket
from collector.source import NoData, State
from collector.tap_inbox import Lane, TapInbox
from collector.tap_receiver import TapReceiver
from lab.synthetic.tap_datagrams import TapSender
from tests.collector.stand_ins import SECOND, ManualClock

_MOST = 128 * 1024
_LOOK_US = 6 * SECOND


class _Side:
    """One collector's receiving side."""

    def __init__(self, path: Path, *, looks_only: bool = False) -> None:
        self.clock = ManualClock()
        self.inbox = TapInbox()
        self.receiver = TapReceiver(
            TapSocket(path, None, _MOST), self.inbox, self.clock, str(path), looks_only=looks_only
        )
        self.receiver.join()

    def listen_again(self) -> NoData | None:
        self.clock.advance(_LOOK_US)
        return self.receiver.listen()

    def wait_for(self, count: int) -> list[bytes]:
        got: list[bytes] = []
        _wait(lambda: len(self._add(got)) >= count)
        return got

    def _add(self, got: list[bytes]) -> list[bytes]:
        got += [one.data for one in self.inbox.take(Lane.GAPS).arrivals]
        return got


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tap-") as name:
        yield Path(name) / "tap.sock"


@pytest.fixture
def side(path: Path) -> Iterator[_Side]:
    made = _Side(path)
    assert made.receiver.listen() is None
    yield made
    made.receiver.leave()


def _wait(until: Callable[[], object]) -> None:
    give_up = time.monotonic() + 20
    while not until():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.01)


def _gaps(request: int = 1) -> bytes:
    return TapSender().gaps({"request": ("I", [request])}, 1, 1)


def _send(path: Path, *datagrams: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(str(path))
        sender.settimeout(10)
        for data in datagrams:
            sender.send(data)


def test_far_more_arrive_than_the_kernel_queues(side: _Side, path: Path) -> None:
    sent = [_gaps(number) for number in range(500)]
    _send(path, *sent)
    assert side.wait_for(500) == sent


def test_a_tap_that_comes_again_is_heard(side: _Side, path: Path) -> None:
    for number in range(3):
        _send(path, _gaps(number))
    assert len(side.wait_for(3)) == 3


def test_a_collector_that_comes_again_is_heard(path: Path) -> None:
    for number in range(3):
        side = _Side(path)
        assert side.receiver.listen() is None
        _send(path, _gaps(number))
        assert side.wait_for(1) == [_gaps(number)]
        side.receiver.leave()
        assert not path.exists()


def test_the_last_user_closes_it(side: _Side, path: Path) -> None:
    side.receiver.join()
    side.receiver.leave()
    _send(path, _gaps())
    assert len(side.wait_for(1)) == 1


def test_a_second_collector_says_who_has_the_socket_and_takes_over_when_it_is_free(
    path: Path,
) -> None:
    first, second = _Side(path), _Side(path)
    assert first.receiver.listen() is None
    answer = second.receiver.listen()
    assert answer is not None
    assert (answer.state, answer.reason) == (
        State.RESTRICTED,
        f"another process listens at {path}",
    )
    first.receiver.leave()
    assert second.receiver.listen() is answer  # it does not look every time
    assert second.listen_again() is None
    _send(path, _gaps())
    assert len(second.wait_for(1)) == 1
    second.receiver.leave()


def test_a_socket_that_somebody_removed_is_made_anew(side: _Side, path: Path) -> None:
    path.unlink()
    assert side.listen_again() is None
    _send(path, _gaps())
    assert len(side.wait_for(1)) == 1


def test_a_look_takes_nothing_from_the_collector_that_runs(side: _Side, path: Path) -> None:
    looking = _Side(path, looks_only=True)
    answer = looking.receiver.listen()
    assert answer is not None
    assert answer.state is State.NOT_APPLICABLE
    assert "told by the collector that runs" in answer.reason
    looking.receiver.leave()
    _send(path, _gaps())
    assert len(side.wait_for(1)) == 1


def test_a_look_where_nobody_listens_makes_no_socket(path: Path) -> None:
    answer = _Side(path, looks_only=True).receiver.listen()
    assert answer is not None
    assert answer.state is State.NOT_FOUND
    assert f"a collector would at {path}" in answer.reason
    assert not path.exists()


def test_a_look_at_a_bad_place_says_what_is_wrong_there(path: Path) -> None:
    path.write_bytes(b"")
    answer = _Side(path, looks_only=True).receiver.listen()
    assert answer is not None
    assert "is no socket" in answer.reason


def test_taps_that_are_not_wanted_open_no_socket() -> None:
    receiver = TapReceiver(None, TapInbox(), ManualClock(), "None")
    receiver.join()
    answer = receiver.listen()
    assert answer is not None
    assert answer.state is State.DISABLED
    assert receiver.note == ""
    receiver.leave()


def test_a_kernel_that_refuses_ends_the_thread_and_it_is_opened_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: TapSocket) -> None:
        raise OSError(12, "Cannot allocate memory")

    with monkeypatch.context() as poor:
        poor.setattr(TapSocket, "receive", refuse)
        side = _Side(path)
        assert side.receiver.listen() is None
        _wait(lambda: "Cannot allocate memory" in caplog.text)
    assert side.listen_again() is None
    _send(path, _gaps())
    assert len(side.wait_for(1)) == 1
    side.receiver.leave()
