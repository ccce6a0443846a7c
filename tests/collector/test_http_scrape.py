from __future__ import annotations

import gzip
import socket
import time

import pytest

from collector.edges.http_scrape import ScrapeError, fetch
from collector.source import State
from tests.collector.raw_server import answer, free_port, measure_s, serving

SECOND = 1_000_000


def failure(url: str, deadline_us: int = SECOND) -> ScrapeError:
    with pytest.raises(ScrapeError) as caught:
        fetch(url, deadline_us)
    return caught.value


def test_returns_the_page_and_asks_for_plain_text() -> None:
    with serving([answer(b"a 1\n")]) as server:
        got = fetch(server.url(), SECOND)
        request = server.requests[0].decode()
    assert (got.body, got.content_type, got.cut) == (b"a 1\n", "text/plain; version=0.0.4", False)
    assert request.startswith("GET /metrics HTTP/1.1\r\n")
    assert "Accept: text/plain;version=0.0.4" in request
    assert "Connection: close" in request


@pytest.mark.parametrize(
    ("path", "asked"), [("", "/metrics"), ("/", "/metrics"), ("/x?y=1", "/x?y=1")]
)
def test_an_address_without_a_path_means_metrics(path: str, asked: str) -> None:
    with serving([answer(b"a 1\n")]) as server:
        fetch(server.url(path), SECOND)
        assert server.requests[0].startswith(f"GET {asked} ".encode())


def test_nothing_listens() -> None:
    error = failure(f"http://127.0.0.1:{free_port()}")
    assert (error.state, error.refused) == (State.NOT_FOUND, True)
    assert "connection refused" in error.reason


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("500 Internal Server Error", State.FAILED),
        ("503 Service Unavailable", State.FAILED),
        ("404 Not Found", State.NOT_FOUND),
        ("401 Unauthorized", State.RESTRICTED),
        ("403 Forbidden", State.RESTRICTED),
        ("204 No Content", State.FAILED),
        ("299 Odd", State.FAILED),
    ],
)
def test_any_other_status_is_the_reason_and_its_body_is_not_read(status: str, state: State) -> None:
    with serving([answer(b"vllm:num_requests_running 7\n", status=status)]) as server:
        error = failure(server.url())
    assert error.state is state
    assert error.reason == f"HTTP {status}"
    assert not error.refused


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/json"])
def test_what_is_no_metrics_page_is_not_read_as_one(kind: str) -> None:
    with serving([answer(b"{}", content_type=kind)]) as server:
        error = failure(server.url())
    assert error.state is State.NOT_FOUND
    assert kind.partition(";")[0] in error.reason


def test_a_page_without_a_content_type_is_read() -> None:
    with serving([answer(b"a 1\n", content_type="")]) as server:
        assert fetch(server.url(), SECOND).content_type == ""


def test_a_redirect_on_the_host_is_followed() -> None:
    moved = answer(b"", "Location: /metrics/", status="307 Temporary Redirect")
    with serving([moved], [answer(b"a 1\n")]) as server:
        assert fetch(server.url(), SECOND).body == b"a 1\n"
        assert server.requests[1].startswith(b"GET /metrics/ ")


def test_a_redirect_to_another_host_is_not_followed() -> None:
    with serving([answer(b"secret 1\n")]) as other:
        moved = answer(b"", f"Location: {other.url()}", status="302 Found")
        with serving([moved]) as server:
            error = failure(server.url())
        assert error.state is State.FAILED
        assert f"127.0.0.1:{other.port}" in error.reason
        assert other.requests == []


def test_a_loop_of_redirects_ends() -> None:
    with serving([answer(b"", "Location: /metrics", status="301 Moved")]) as server:
        assert "redirects" in failure(server.url()).reason
        assert len(server.requests) <= 5


def test_a_server_that_never_answers_costs_the_deadline() -> None:
    with serving([], hold=True) as server:
        begin = time.monotonic()
        error = failure(server.url(), 200_000)
    assert error.state is State.HUNG
    assert "0.2 s" in error.reason
    assert measure_s(begin) < 1


@pytest.mark.parametrize("stage", ["header", "body"])
def test_a_server_that_drips_costs_the_deadline_all_the_same(stage: str) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n"
    drops: list[bytes | float] = [b"X", 0.05] * 100
    script = [head + (b"\r\n" if stage == "body" else b"X-Slow: "), *drops]
    with serving(script) as server:
        begin = time.monotonic()
        assert failure(server.url(), 300_000).state is State.HUNG
    assert measure_s(begin) < 1.5


def test_a_connection_that_breaks_leaves_a_cut_page() -> None:
    whole = answer(b"a 1\nb 2\nc 11670.0\n")
    with serving([whole[:-6]]) as server:
        got = fetch(server.url(), SECOND)
    assert got.cut
    assert got.body == b"a 1\nb 2\nc 11"


def test_a_broken_chunked_page_is_cut_too() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    with serving([head + b"4\r\na 1\n\r\n8\r\nb 2"], [head + b"4\r\na 1\n\r\n0\r\n\r\n"]) as server:
        cut = fetch(server.url(), SECOND)
        whole = fetch(server.url(), SECOND)
    assert cut.cut
    assert cut.body.startswith(b"a 1\n")
    assert (whole.cut, whole.body) == (False, b"a 1\n")


def test_a_page_longer_than_the_limit_is_cut_there() -> None:
    with serving([answer(b"a 1\n" * 1_000)]) as server:
        got = fetch(server.url(), SECOND, most_bytes=100)
    assert got.cut
    assert len(got.body) == 100


def test_compression_nobody_asked_for_is_undone_within_the_limit() -> None:
    packed = gzip.compress(b"a 1\n" * 1_000)
    with serving([answer(packed, "Content-Encoding: gzip")]) as server:
        assert fetch(server.url(), SECOND).body == b"a 1\n" * 1_000
        bomb = fetch(server.url(), SECOND, most_bytes=1_000)
    assert bomb.cut
    assert len(bomb.body) == 1_000


def test_compression_that_is_broken_or_unknown_is_a_reason() -> None:
    with serving([answer(b"no gzip", "Content-Encoding: gzip")]) as server:
        assert failure(server.url()).state is State.FAILED
    with serving([answer(b"x", "Content-Encoding: br")]) as server:
        assert failure(server.url()).state is State.UNSUPPORTED


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8000", "ftp://127.0.0.1/x", "http://", "http://127.0.0.1:x/", "http://[::1"],
)
def test_what_is_no_address_is_a_reason(url: str) -> None:
    error = failure(url)
    assert error.state is State.FAILED
    assert "not an address" in error.reason


def test_a_host_name_that_cannot_be_looked_up_is_a_reason() -> None:
    assert failure("http://" + "a" * 70 + "/").state in {State.NOT_FOUND, State.FAILED}


def test_what_is_not_http_is_a_reason() -> None:
    with serving([b"SSH-2.0-OpenSSH_9.2\r\n"]) as server:
        assert "not HTTP" in failure(server.url()).reason
    with serving([b""]) as server:
        assert failure(server.url()).state is State.FAILED


def test_tls_to_a_plain_server_is_a_reason() -> None:
    with serving([answer(b"a 1\n")]) as server:
        error = failure(server.url().replace("http:", "https:"))
    assert error.state is State.FAILED


def test_a_deadline_that_is_over_is_kept_too() -> None:
    with serving([answer(b"a 1\n")]) as server:
        assert failure(server.url(), 0).state is State.HUNG


def test_a_host_that_no_name_server_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    error = failure("http://engine.invalid:8000")
    assert (error.state, error.refused) == (State.NOT_FOUND, False)
    assert error.reason == "host name not found: Name or service not known"
