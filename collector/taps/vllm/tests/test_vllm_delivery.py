"""Nobody there, somebody back, somebody stuck: what is kept, what is dropped and counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from vllm_wire_reader import Collector, socket_folder

from stallscope_vllm import delivery as delivery_module
from stallscope_vllm.delivery import KEEP_BYTES, KEEP_NS, RETRY_NS, Batch, Delivery
from stallscope_vllm.sender import BUSY, GONE, SENT, TOO_LONG, Sender
from stallscope_vllm.socket_path import socket_paths
from stallscope_vllm.wire import GAPS

_SECOND = 1_000_000_000


class _ScriptedSender:
    """Answers with what the test says; keeps what was sent."""

    def __init__(self, _: Any) -> None:
        self.sent: list[bytes] = []
        self.answer: Callable[[bytes], str] = lambda _: SENT
        self.is_listening = True
        self.is_connected = False
        self.looks = 0

    def connect(self) -> bool:
        self.looks += 1
        self.is_connected = self.is_listening
        return self.is_connected

    def send(self, datagram: bytes) -> str:
        outcome = self.answer(datagram) if self.is_connected else GONE
        if outcome == GONE:
            self.is_connected = False
        if outcome == SENT:
            self.sent.append(datagram)
        return outcome

    def close(self) -> None:
        self.is_connected = False


@pytest.fixture
def delivery(monkeypatch: pytest.MonkeyPatch) -> Delivery:
    monkeypatch.setattr(delivery_module, "Sender", _ScriptedSender)
    return Delivery([], lambda batch: b"".join(batch.rows))


def _sender(delivery: Delivery) -> _ScriptedSender:
    sender = delivery._sender  # noqa: SLF001 - the stand-in that the fixture put there
    assert isinstance(sender, _ScriptedSender)
    return sender


def _batch(*rows: bytes) -> Batch:
    return Batch(GAPS, list(rows))


def test_what_nobody_takes_waits_for_two_seconds(delivery: Delivery) -> None:
    sender = _sender(delivery)
    sender.is_listening = False
    delivery.send(_batch(b"old", b"er"), 0)
    delivery.send(_batch(b"new"), _SECOND)
    sender.is_listening = True
    delivery.push(KEEP_NS + 1)
    assert (sender.sent, delivery.lost, delivery.connections) == ([b"new"], 2, 1)


def test_a_missing_collector_is_looked_for_once_a_second(delivery: Delivery) -> None:
    sender = _sender(delivery)
    sender.is_listening = False
    for tick in range(100):
        delivery.push(tick * _SECOND // 20)
    assert sender.looks == 5
    assert delivery.is_given_up(99 * _SECOND // 20)
    assert not delivery.is_given_up(KEEP_NS)


def test_one_that_comes_back_is_sent_everything_in_order(delivery: Delivery) -> None:
    sender = _sender(delivery)
    delivery.send(_batch(b"1"), 0)
    sender.answer = lambda _: GONE
    delivery.send(_batch(b"2"), RETRY_NS // 2)
    delivery.send(_batch(b"3"), RETRY_NS - 1)
    sender.answer = lambda _: SENT
    delivery.push(RETRY_NS)
    assert (sender.sent, delivery.lost, delivery.connections) == ([b"1", b"2", b"3"], 0, 2)
    assert not delivery.is_given_up(10 * _SECOND)


def test_one_that_is_behind_is_waited_for(delivery: Delivery) -> None:
    sender = _sender(delivery)
    sender.answer = lambda _: BUSY
    delivery.send(_batch(b"1"), 0)
    delivery.send(_batch(b"2"), 1)
    assert delivery.has_waiting
    sender.answer = lambda _: SENT
    delivery.send(_batch(b"3"), _SECOND)
    assert (sender.sent, delivery.lost, delivery.has_waiting) == ([b"1", b"2", b"3"], 0, False)


def test_what_waits_is_bounded_in_bytes(delivery: Delivery) -> None:
    _sender(delivery).answer = lambda _: BUSY
    for _ in range(20):
        delivery.send(_batch(bytes(KEEP_BYTES // 8)), 0)
    assert delivery.lost == 12
    delivery.close()
    assert (delivery.lost, delivery.has_waiting) == (20, False)


def test_a_datagram_that_is_too_long_goes_in_parts(delivery: Delivery) -> None:
    sender = _sender(delivery)
    sender.answer = lambda datagram: TOO_LONG if len(datagram) > 4 else SENT
    delivery.send(_batch(b"a1", b"b2", b"c3", b"d4", b"too long whatever"), 0)
    assert (b"".join(sender.sent), delivery.lost) == (b"a1b2c3d4", 1)
    assert max(map(len, sender.sent)) <= 4


def test_first_tokens_go_with_the_first_part() -> None:
    tokens = [(0, 1, 2)]
    first, second = Batch(GAPS, [1, 2, 3], tokens).halves()
    assert (first.rows, second.rows) == ([1], [2, 3])
    assert (first.first_tokens, second.first_tokens) == (tokens, [])


def test_a_real_socket_says_what_happened() -> None:
    with socket_folder() as folder:
        path = folder / "tap.sock"
        sender = Sender(["\0bad\0", str(folder / "missing.sock"), str(path)])
        assert not sender.connect()
        assert sender.send(b"x") == GONE
        collector = Collector(path)
        assert sender.connect()
        assert sender.send(b"one") == SENT
        assert sender.send(bytes(64 * 1024 * 1024)) == TOO_LONG
        while (outcome := sender.send(bytes(1_024))) == SENT:
            assert len(collector.raw) < 100_000
        assert outcome == BUSY
        collector.close()
        assert sender.send(b"x") == GONE
        assert not sender.is_connected


def test_a_collector_that_was_restarted_is_noticed() -> None:
    with socket_folder() as folder:
        delivery = Delivery([str(folder / "tap.sock")], lambda batch: b"".join(batch.rows))
        first = Collector(folder / "tap.sock")
        delivery.send(_batch(b"1"), 0)
        first.read()
        first.close()
        second = Collector(folder / "tap.sock")
        delivery.send(_batch(b"2"), RETRY_NS)
        delivery.push(RETRY_NS)
        second.read()
        second.close()
        delivery.close()
    assert (first.raw, second.raw) == ([b"1"], [b"2"])
    assert (delivery.lost, delivery.connections) == (0, 2)


def test_a_full_queue_of_a_stuck_collector_never_makes_send_wait() -> None:
    with socket_folder() as folder:
        collector = Collector(folder / "tap.sock")
        delivery = Delivery([str(folder / "tap.sock")], lambda batch: b"".join(batch.rows))
        begin = time.monotonic()
        for tick in range(2_000):
            delivery.send(_batch(bytes(8_192)), tick * _SECOND // 100)
        assert time.monotonic() - begin < 10  # it would be for ever
        assert delivery.lost > 1_500
        collector.close()
        delivery.close()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"STALLSCOPE_TAP_SOCKET": "/x/y.sock", "XDG_RUNTIME_DIR": "/run/user/1"}, ["/x/y.sock"]),
        (
            {"XDG_RUNTIME_DIR": "/run/user/1"},
            ["/run/stallscope/tap.sock", "/run/user/1/stallscope/tap.sock"],
        ),
        ({}, ["/run/stallscope/tap.sock"]),
    ],
    ids=["setting", "both places", "no runtime folder"],
)
def test_the_socket_is_where_both_sides_look(
    variables: dict[str, str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STALLSCOPE_TAP_SOCKET", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert socket_paths() == expected
    assert all(Path(path).is_absolute() for path in socket_paths())
