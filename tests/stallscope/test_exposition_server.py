from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection

import pytest

from stallscope.exposition.access import Access, host_name
from stallscope.exposition.reply import Reply
from stallscope.exposition.server import Limits, Listener


def _echo(accept: str) -> Reply:
    return Reply.text(HTTPStatus.OK, f"accept={accept}")


def _broken(accept: str) -> Reply:
    raise ValueError(accept)


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    running = Listener(("127.0.0.1", 0), {"/echo": _echo, "/broken": _broken}, Access())
    yield running
    running.close()


def _get(
    port: int, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.settimeout(10)
    return connection


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_path_answers_with_the_accept_header(listener: Listener) -> None:
    assert _get(listener.port, "/echo?x=1", {"Accept": "text/plain"}) == (
        200,
        "accept=text/plain\n",
    )


def test_another_path_names_those_there_are(listener: Listener) -> None:
    status, body = _get(listener.port, "/metrics/../etc/passwd")
    assert (status, body) == (404, "no such path; there are: /broken /echo\n")


def test_head_is_get_without_a_body(listener: Listener) -> None:
    assert _get(listener.port, "/echo", method="HEAD") == (200, "")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_not_known(listener: Listener, method: str) -> None:
    assert _get(listener.port, "/echo", method=method)[0] == 501


def test_no_version_of_anything_is_told(listener: Listener) -> None:
    with _connect(listener.port) as connection:
        connection.sendall(b"GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(4_096), b"")).decode()
    assert "Server: stallscope\r\n" in answer
    assert "Python" not in answer
    assert "X-Content-Type-Options: nosniff\r\n" in answer


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9871", "127.0.0.1:9871", "[::1]:9871", "localhost."]
)
def test_loopback_names_may_read(listener: Listener, host: str) -> None:
    assert _get(listener.port, "/echo", {"Host": host})[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9871",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "user@evil.example",
        "192.0.2.1",
        "",
        "[::1",
        "evil.example#localhost",
        "a/localhost",
    ],
)
def test_a_rebound_name_may_not(listener: Listener, host: str) -> None:
    assert _get(listener.port, "/echo", {"Host": host})[0] == 403


def test_no_host_at_all_may_not_read(listener: Listener) -> None:
    with _connect(listener.port) as connection:
        connection.sendall(b"GET /echo HTTP/1.0\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.0 403 ")


def test_a_name_with_something_before_it_is_the_name_that_counts() -> None:
    assert host_name("localhost@evil.example") == "evil.example"
    assert host_name("evil.example@localhost:1") == "localhost"


def test_with_a_token_the_token_decides() -> None:
    listener = Listener(("127.0.0.1", 0), {"/echo": _echo}, Access("s3cret"))
    try:
        good = {"Host": "gpu-17:9871", "Authorization": "Bearer s3cret"}
        assert _get(listener.port, "/echo", good)[0] == 200
        for bad in ("", "s3cret", "Bearer s3cre", "Bearer s3cret ", "Basic s3cret", "bearer é"):
            status, _ = _get(
                listener.port, "/echo", {"Authorization": bad.encode().decode("latin1")}
            )
            assert status == 401
        assert _get(listener.port, "/echo")[0] == 401
    finally:
        listener.close()


def test_an_error_of_ours_is_told_once_and_costs_nothing_else(
    listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        assert _get(listener.port, "/broken", {"Accept": "boom"}) == (500, "see the log\n")
    assert caplog.messages == ["/broken cannot be answered: ValueError: boom"]
    assert _get(listener.port, "/echo")[0] == 200


@contextmanager
def _listening(limits: Limits) -> Iterator[int]:
    running = Listener(("127.0.0.1", 0), {"/echo": _echo}, Access(), limits)
    try:
        yield running.port
    finally:
        running.close()


def test_a_silent_peer_is_dropped() -> None:
    with _listening(Limits(silence_s=0.2)) as port, _connect(port) as connection:
        connection.sendall(b"GET /echo HTTP/1.1\r\nHost: loc")
        assert _is_closed(connection)


def test_a_peer_that_drips_is_dropped() -> None:
    with (
        _listening(Limits(exchange_s=0.5)) as port,
        _connect(port) as connection,
        pytest.raises(OSError, match=r"pipe|reset|abort"),
    ):
        _drip(connection, for_s=10)


def _drip(connection: socket.socket, for_s: float) -> None:
    give_up = time.monotonic() + for_s
    while time.monotonic() < give_up:
        connection.sendall(b"X-Drip: 1\r\n")
        time.sleep(0.05)


def test_so_many_at_once_and_then_again() -> None:
    with _listening(Limits(at_once=3)) as port:
        held = [_connect(port) for _ in range(3)]
        with _connect(port) as one_more:
            assert _is_closed(one_more)
        for connection in held:
            connection.close()
        _until(lambda: _answers(port))


def test_a_long_line_or_many_headers_are_refused(listener: Listener) -> None:
    assert _get(listener.port, "/" + "x" * 70_000)[0] == 414
    with _connect(listener.port) as connection:
        lines = b"".join(b"X-%d: 1\r\n" % number for number in range(200))
        connection.sendall(b"GET /echo HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.0 431 ")


def test_a_taken_port_is_an_error_at_once(listener: Listener) -> None:
    with pytest.raises(OSError, match="Address already in use"):
        Listener(("127.0.0.1", listener.port), {}, Access())


def test_nobody_is_asked_for_the_name_of_our_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(name: str = "") -> str:
        raise AssertionError(name)

    monkeypatch.setattr(socket, "getfqdn", ask)
    Listener(("127.0.0.1", 0), {}, Access()).close()


def test_it_listens_on_ipv6_loopback_too() -> None:
    try:
        listener = Listener(("::1", 0), {"/echo": _echo}, Access())
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    listener.close()


def _answers(port: int) -> bool:
    try:
        return _get(port, "/echo")[0] == 200
    except OSError:
        return False


def _until(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 10
    while not true():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.02)


def test_a_burst_is_answered_or_closed_at_once_and_not_left_to_the_kernel(
    listener: Listener,
) -> None:
    begin = time.monotonic()
    burst = [_connect(listener.port) for _ in range(100)]
    try:
        for connection in burst:
            connection.sendall(b"GET /echo HTTP/1.0\r\nHost: localhost\r\n\r\n")
        for connection in burst:
            connection.recv(1)
    except ConnectionResetError:  # more than are answered at once
        pass
    finally:
        for connection in burst:
            connection.close()
    assert time.monotonic() - begin < 1, "a SYN that finds no room is sent again after a second"
