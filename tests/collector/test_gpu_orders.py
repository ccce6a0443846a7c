from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from collector.endpoints import Heartbeat, Readiness, listen, routes_of
from collector.gpu_orders import GpuOrders, OrderError, parse_order
from collector.gpu_requests import GpuRequests
from stallscope.exposition.page import Page
from stallscope.exposition.server import Listener
from tests.collector.stand_ins import SECOND, ManualClock
from tests.conftest import REPO

_GOOD = [
    (b'{"burst_seconds": 1}', ("burst_seconds", 1)),
    (b'{"burst_seconds":60}', ("burst_seconds", 60)),
    (b' {"release_seconds": 3600}\n', ("release_seconds", 3_600)),
    ('{"burst_seconds": 5}'.encode("utf-16"), ("burst_seconds", 5)),
]
_BAD = [
    b"",
    b"burst",
    b"null",
    b"5",
    b"[]",
    b"{}",
    b'"burst_seconds"',
    b'["burst_seconds"]',
    b'{"burst_seconds": 0}',
    b'{"burst_seconds": 61}',
    b'{"burst_seconds": -1}',
    b'{"burst_seconds": 1.0}',
    b'{"burst_seconds": 1e1}',
    b'{"burst_seconds": "5"}',
    b'{"burst_seconds": true}',
    b'{"burst_seconds": null}',
    b'{"burst_seconds": [5]}',
    b'{"burst_seconds": NaN}',
    b'{"burst_seconds": Infinity}',
    b'{"burst_seconds": 5',
    b'{"burst_seconds": 5} {"burst_seconds": 5}',
    b'{"burst_seconds": 5, "release_seconds": 5}',
    b'{"burst_seconds": 5, "burst_minutes": 5}',
    b'{"burst": 5}',
    b'{"BURST_SECONDS": 5}',
    b'{"release_seconds": 3601}',
    b'{"release_seconds": 0}',
    b'{"burst_seconds": ' + b"9" * 5_000 + b"}",
    b"\xff\xfe\xfd",
    b"[" * 60_000,
    b'{"a":' * 10_000,
    b"\x00" * 100,
]


@pytest.mark.parametrize(("body", "order"), _GOOD)
def test_an_order_is_one_word_and_whole_seconds(body: bytes, order: tuple[str, int]) -> None:
    assert parse_order(body) == order


@pytest.mark.parametrize("body", _BAD, ids=lambda body: repr(body[:30]))
def test_anything_else_is_told_what_can_be_asked(body: bytes) -> None:
    with pytest.raises(OrderError) as error:
        parse_order(body)
    assert 'send {"burst_seconds": 1 to 60} or {"release_seconds": 1 to 3600}' in str(error.value)
    assert len(str(error.value)) < 200


def test_the_orders_that_the_docs_spell_are_taken() -> None:
    text = (REPO / "docs/operations.md").read_text(encoding="utf-8")
    bodies = re.findall(r"-d '([^']+)' http://\S+/gpu\n", text)
    assert {parse_order(body.encode())[0] for body in bodies} == {
        "burst_seconds",
        "release_seconds",
    }


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def requests() -> GpuRequests:
    return GpuRequests()


def test_a_burst_is_passed_on_and_its_end_told(clock: ManualClock, requests: GpuRequests) -> None:
    reply = GpuOrders(requests, clock).answer(b'{"burst_seconds": 20}')
    assert (reply.status, reply.content_type) == (200, "application/json")
    # 1,700,000,000 s is 22:13:20 UTC; the clock stands 1,000 s later.
    assert json.loads(reply.body) == {
        "burst_seconds": 20,
        "until": "2023-11-14T22:30:20Z",
        "until_wall_us": 1_700_001_020 * SECOND,
    }
    assert requests.is_burst(clock.mono_us + 20 * SECOND - 1)
    assert not requests.is_burst(clock.mono_us + 20 * SECOND + 1)
    assert requests.release_left_us(clock.mono_us) == 0


def test_a_release_is_passed_on(clock: ManualClock, requests: GpuRequests) -> None:
    reply = GpuOrders(requests, clock).answer(b'{"release_seconds": 600}')
    assert json.loads(reply.body)["release_seconds"] == 600
    assert requests.release_left_us(clock.mono_us + 600 * SECOND - 1) > 0
    assert requests.release_left_us(clock.mono_us + 600 * SECOND + 1) == 0
    assert not requests.is_burst(clock.mono_us)


def test_a_refused_order_changes_nothing(clock: ManualClock, requests: GpuRequests) -> None:
    reply = GpuOrders(requests, clock).answer(b'{"burst_seconds": 61}')
    assert reply.status == 400
    assert b"whole number of 1 to 60" in reply.body
    assert not requests.is_burst(clock.mono_us)


@pytest.fixture
def port(clock: ManualClock, requests: GpuRequests) -> Iterator[int]:
    page = Page(lambda *_: None, clock, {"version": "1"})
    orders = GpuOrders(requests, clock)
    routes = routes_of(page, Heartbeat(clock), Readiness(lambda: "", clock), orders)
    listener = listen(("127.0.0.1", 0), routes, None)
    assert isinstance(listener, Listener)
    yield listener.port
    listener.close()


def _ask(port: int, method: str, body: str, kind: str = "application/json") -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, "/gpu", body, {"Content-Type": kind})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_collector_takes_orders_by_post_alone(
    port: int, clock: ManualClock, requests: GpuRequests
) -> None:
    order = '{"burst_seconds": 5}'
    assert _ask(port, "GET", order)[0] == 405
    assert _ask(port, "POST", order, "text/plain")[0] == 415
    assert _ask(port, "POST", "nonsense")[0] == 400
    assert not requests.is_burst(clock.mono_us)
    assert _ask(port, "POST", order)[0] == 200
    assert requests.is_burst(clock.mono_us)
