from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.endpoints import Heartbeat, Readiness, listen, routes_of
from collector.gpu_orders import GpuOrders
from collector.gpu_requests import GpuRequests
from collector.readiness import why_not_ready
from stallscope.exposition.page import Page
from stallscope.exposition.server import Listener
from stallscope.storage.publisher import Publisher
from stallscope.storage.writer import Writer, WriterOptions
from tests.collector.stand_ins import SECOND, ManualClock


def _page(clock: ManualClock) -> Page:
    return Page(lambda *_: None, clock, {"version": "1"})


@pytest.fixture
def port() -> Iterator[int]:
    clock = ManualClock()
    orders = GpuOrders(GpuRequests(), clock)
    routes = routes_of(_page(clock), Heartbeat(clock), Readiness(lambda: "", clock), orders)
    listener = listen(("127.0.0.1", 0), routes, None)
    assert isinstance(listener, Listener)
    yield listener.port
    listener.close()


def _fetch(port: int, path: str, accept: str = "") -> tuple[str, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        return answer.headers["Content-Type"], answer.read().decode()


def test_metrics_come_as_plain_text(port: int) -> None:
    kind, body = _fetch(port, "/metrics")
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert body.endswith('stallscope_build_info{version="1"} 1.0\n')


def test_metrics_come_as_open_metrics_when_asked(port: int) -> None:
    # What Prometheus 2.42 sends.
    accept = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1"
    kind, body = _fetch(port, "/metrics", f"{accept};q=0.75,text/plain;version=0.0.4;q=0.5,*/*")
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith("# EOF\n")


def test_health_and_readiness_answer(port: int) -> None:
    assert _fetch(port, "/healthz")[1] == "alive\n"
    assert _fetch(port, "/readyz")[1] == "ready\n"


def test_a_loop_that_stands_still_is_not_alive() -> None:
    clock = ManualClock()
    heart = Heartbeat(clock)
    clock.advance(10 * SECOND)
    assert heart.answer("").status == 200
    clock.advance(2 * SECOND)
    reply = heart.answer("")
    assert (reply.status, reply.body) == (503, b"the main loop has not turned for 12 s\n")
    heart.beat()
    assert heart.answer("").status == 200


def test_readiness_asks_at_most_once_a_second() -> None:
    clock = ManualClock()
    answers = iter(["no catalog", "", "never asked"])
    readiness = Readiness(lambda: next(answers), clock)
    for _ in range(5):
        assert readiness.answer("").body == b"no catalog\n"
    clock.advance(SECOND + 1)
    for _ in range(5):
        assert (readiness.answer("").status, readiness.answer("").body) == (200, b"ready\n")


def test_a_taken_port_is_named_and_the_rest_runs(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        assert listen(("127.0.0.1", taken), {"/metrics": lambda _: None}, None) is None  # type: ignore[dict-item,return-value]
    assert f"port {taken} on 127.0.0.1" in caplog.text
    assert "collect.listen_port" in caplog.text


_QUIET = WriterOptions(sync=False, journal_s=0, live_seal_s=0, housekeeping_s=0)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    opened = Writer.open(tmp_path / "lake", "collect", clock=ManualClock(), options=_QUIET)
    yield opened
    opened.close()


def _health_row(wall_us: int) -> dict[str, object]:
    counts = dict.fromkeys(("reads", "rows", "rejects", "failures", "dropped"), 0)
    times = {"wall_us": wall_us, "mono_us": 1_000 * SECOND}
    return {**times, "source": "collector", "state": "working", **counts}


def test_a_lake_is_ready_when_the_catalog_shows_the_last_seconds(writer: Writer) -> None:
    clock = ManualClock()
    assert "the catalog cannot be read" in why_not_ready(writer, clock)
    publisher = Publisher(writer.layout)
    publisher.publish_if_changed()
    assert why_not_ready(writer, clock) == "the catalog shows no row of the last 10 s"
    writer.append("source_health", [_health_row(clock.now().wall_us - 11 * SECOND)])
    writer.seal()
    publisher.publish_if_changed()
    assert why_not_ready(writer, clock) == "the catalog shows no row of the last 10 s"
    writer.append("source_health", [_health_row(clock.now().wall_us - 9 * SECOND)])
    writer.seal()
    publisher.publish_if_changed()
    assert why_not_ready(writer, clock) == ""


def test_a_lake_in_which_nothing_is_sealed_is_not_ready(writer: Writer) -> None:
    clock = ManualClock()
    clock.advance(11 * SECOND)
    assert why_not_ready(writer, clock) == "nothing was sealed for 11 s"


def test_a_damaged_catalog_is_not_ready(writer: Writer) -> None:
    Publisher(writer.layout).publish_if_changed()
    writer.layout.catalog.resolve().write_bytes(b"not a database" * 1_000)
    assert "the catalog cannot be read" in why_not_ready(writer, ManualClock())
