"""What may be sent to the listener, by whom, and what is refused before anybody parses it."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.client import HTTPConnection

import pytest

from stallscope.exposition.access import LONGEST_BODY, Access
from stallscope.exposition.reply import Post, Reply, Route
from stallscope.exposition.server import Limits, Listener

_JSON = {"Content-Type": "application/json"}


def _read(accept: str) -> Reply:
    return Reply.text(HTTPStatus.OK, f"read {accept}")


def _take(body: bytes) -> Reply:
    if body == b"break":
        raise ValueError("no good")
    return Reply.text(HTTPStatus.OK, f"took {len(body)}")


_ROUTES: Mapping[str, Route | Post] = {"/read": _read, "/take": Post(_take)}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    running = Listener(("127.0.0.1", 0), _ROUTES, Access())
    yield running.port
    running.close()


def _send(
    port: int,
    headers: dict[str, str],
    body: bytes = b"{}",
    path: str = "/take",
    method: str = "POST",
) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def _raw(port: int, head: str, body: bytes = b"") -> bytes:
    """Send a request as spelled; the Host is ours."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        lines = f"POST /take HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n"
        connection.sendall(lines.encode() + body)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(4_096), b""))


def test_json_arrives_whole(port: int) -> None:
    assert _send(port, _JSON, b'{"a": 1}') == (200, "took 8\n")
    assert _send(port, _JSON, b"") == (200, "took 0\n")
    assert _send(port, _JSON, b"x" * LONGEST_BODY) == (200, f"took {LONGEST_BODY}\n")


def test_a_charset_may_stand_behind_the_type(port: int) -> None:
    assert _send(port, {"Content-Type": "Application/JSON; charset=utf-8"})[0] == 200


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "text/plain; application/json",
        "application/json, text/plain",
        "",
    ],
)
def test_what_a_form_can_send_is_refused(port: int, kind: str) -> None:
    status, body = _send(port, {"Content-Type": kind})
    assert (status, body) == (415, "the Content-Type must be application/json\n")


def test_no_type_at_all_is_refused(port: int) -> None:
    assert b" 415 " in _raw(port, "Content-Length: 2", b"{}")


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
        "http://127.0.0.1",  # the same machine, another port: somebody else's page
        "http://127.0.0.1:1",
        "http://[::1",
        "",
    ],
)
def test_a_page_of_another_origin_may_not_send(port: int, origin: str) -> None:
    status, body = _send(port, {**_JSON, "Origin": origin})
    assert (status, body) == (403, "a page of another origin may not send anything here\n")


def test_our_own_origin_may(port: int) -> None:
    assert _send(port, {**_JSON, "Origin": f"http://127.0.0.1:{port}"})[0] == 200


def test_one_foreign_origin_among_two_is_enough(port: int) -> None:
    head = "Content-Type: application/json\r\nContent-Length: 2\r\nOrigin: http://localhost"
    assert b" 200 " in _raw(port, head, b"{}")
    assert b" 403 " in _raw(port, f"{head}\r\nOrigin: http://evil.example", b"{}")


def test_a_rebound_name_may_not_send(port: int) -> None:
    origin = {"Host": "evil.example", "Origin": "http://evil.example"}
    assert _send(port, {**_JSON, **origin})[0] == 403


def test_with_a_token_the_token_decides_and_origins_still_count() -> None:
    listener = Listener(("127.0.0.1", 0), _ROUTES, Access("s3cret"))
    try:
        good = {**_JSON, "Host": "gpu-17:9871", "Authorization": "Bearer s3cret"}
        assert _send(listener.port, good)[0] == 200
        assert _send(listener.port, {**good, "Origin": "http://evil.example"})[0] == 403
        assert _send(listener.port, {**good, "Host": "", "Origin": "null"})[0] == 403
        assert _send(listener.port, _JSON)[0] == 401
    finally:
        listener.close()


@pytest.mark.parametrize(
    ("length", "status"),
    [
        (str(LONGEST_BODY + 1), 413),
        ("9" * 5_000, 413),
        ("-1", 400),
        ("+2", 400),
        ("2.0", 400),
        ("0x2", 400),
        ("1_0", 400),
        ("٢", 400),
        ("two", 400),
        ("", 400),
        ("2\r\nContent-Length: 3", 400),
    ],
)
def test_a_length_that_is_none_or_too_long_is_refused(port: int, length: str, status: int) -> None:
    answer = _raw(port, f"Content-Type: application/json\r\nContent-Length: {length}")
    assert answer.startswith(b"HTTP/1.0 %d " % status)


def test_a_body_without_a_length_is_refused(port: int) -> None:
    kind = "Content-Type: application/json"
    assert b" 411 " in _raw(port, kind, b"{}")
    assert b" 411 " in _raw(port, f"{kind}\r\nTransfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n\r\n")
    both = f"{kind}\r\nTransfer-Encoding: chunked\r\nContent-Length: 2"
    assert b" 411 " in _raw(port, both, b"{}")


def test_a_body_that_is_cut_off_is_refused(port: int) -> None:
    head = "Content-Type: application/json\r\nContent-Length: 20"
    assert b" 400 " in _raw(port, head, b'{"burst_seconds": 5')


def test_a_peer_that_sends_half_a_body_and_waits_is_dropped() -> None:
    listener = Listener(("127.0.0.1", 0), _ROUTES, Access(), Limits(silence_s=0.2))
    try:
        with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as connection:
            head = b"POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{"
            connection.sendall(head)
            assert connection.recv(100) == b""
    finally:
        listener.close()


def test_a_path_takes_one_method_and_names_it(port: int) -> None:
    assert _send(port, _JSON, path="/read") == (405, "this path takes GET, HEAD only\n")
    assert _send(port, {}, b"", method="GET") == (405, "this path takes POST only\n")
    assert _send(port, {}, b"", method="HEAD") == (405, "")
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/take")
    assert connection.getresponse().headers["Allow"] == "POST"
    connection.close()


def test_another_path_is_not_found(port: int) -> None:
    assert _send(port, _JSON, path="/nothing") == (404, "no such path; there are: /read /take\n")


def test_an_error_of_ours_is_told_once(port: int, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        assert _send(port, _JSON, b"break") == (500, "see the log\n")
    assert caplog.messages == ["/take cannot be answered: ValueError: no good"]
