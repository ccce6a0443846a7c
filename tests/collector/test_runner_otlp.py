"""A whole collector that takes spans and sends its own metrics, by settings alone."""

from __future__ import annotations

import gzip
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import duckdb
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from collector import runner
from stallscope.settings import Settings, load
from tests.collector.fake_machine import FakeMachine
from tests.collector.otlp_bodies import as_protobuf, request, span, text


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _settings(tmp_path: Path, **flags: str) -> Settings:
    machine = FakeMachine(tmp_path / "machine")
    usual = {
        "lake.path": str(tmp_path / "lake"),
        "host.name": "host-1",
        "host.proc": str(machine.proc),
        "host.sys": str(machine.sys),
        "collect.listen_port": str(_free_port()),
        "discovery.enabled": "false",
    }
    wanted = {name.replace("__", "."): value for name, value in flags.items()}
    return load(None, {"HOME": str(tmp_path)}, {**usual, **wanted})


@contextmanager
def _running(settings: Settings) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=runner.run, args=(settings, (), stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


def _wait(until: Callable[[], object]) -> None:
    give_up = time.monotonic() + 20
    while not until():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.05)


def _ask(settings: Settings, question: str) -> list[tuple[object, ...]]:
    catalog = settings.lake.path / "catalog.duckdb"
    with duckdb.connect(str(catalog), read_only=True) as connection:
        return connection.execute(question).fetchall()


def _send(settings: Settings, body: bytes) -> bool:
    url = f"http://127.0.0.1:{settings.otlp.http_port}/v1/traces"
    sent = urllib.request.Request(url, body, {"Content-Type": "application/x-protobuf"})
    try:
        with urllib.request.urlopen(sent, timeout=5) as answer:  # noqa: S310 - ours
            return bool(answer.status == 200)
    except OSError:  # not listening yet
        return False


def test_spans_end_up_in_the_lake_with_names_for_their_requests(tmp_path: Path) -> None:
    settings = _settings(tmp_path, otlp__http_enabled="true", otlp__http_port=str(_free_port()))
    ended_ns = time.time_ns()
    ids = [text("gen_ai.request.id", f"chatcmpl-{number}") for number in range(3)]
    times = {"startTimeUnixNano": str(ended_ns - 10**9), "endTimeUnixNano": str(ended_ns)}
    body = as_protobuf(request(*(span([one], **times) for one in ids)))
    with _running(settings):
        _wait(lambda: _send(settings, body))
    rows = _ask(
        settings,
        "SELECT r.ttft_us, r.e2e_us, r.level, n.name, e.endpoint, e.name FROM request r "
        "JOIN request_name n USING (request) JOIN engine e USING (engine)",
    )
    assert len(rows) == 3
    assert {row[:3] for row in rows} == {(250_000, 1_750_000, "trace")}
    assert len({row[3] for row in rows}) == 3
    assert {row[4:] for row in rows} == {("otlp", "otlp")}
    states = _ask(settings, "SELECT DISTINCT source FROM source_health")
    assert ("otlp_traces",) in states
    assert ("otlp_export",) not in states


def test_our_own_metrics_are_sent_at_the_end_at_the_latest(tmp_path: Path) -> None:
    got: list[ExportMetricsServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
            got.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - base class
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        settings = _settings(tmp_path, otlp__export_endpoint=endpoint)
        with _running(settings):
            time.sleep(1.5)  # one round of the books
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    names = {
        metric.name
        for message in got
        for resource in message.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert "stallscope.collector_source_up" in names
    assert ("otlp_export",) in _ask(settings, "SELECT DISTINCT source FROM source_health")


def test_without_the_libraries_the_rest_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "collector.otlp_export", None)
    settings = _settings(tmp_path, otlp__export_endpoint="http://127.0.0.1:9")
    with _running(settings):
        time.sleep(1.5)
    (reason,) = _ask(
        settings,
        "SELECT DISTINCT reason FROM source_health WHERE source = 'otlp_export' "
        "AND state = 'failed'",
    )
    assert "otlp.export_endpoint needs stallscope[otlp]" in str(reason)
