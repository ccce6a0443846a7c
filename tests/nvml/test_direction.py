"""A copy to the GPU, followed from the driver to everything that people and programs read."""

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
from typing import Any

import duckdb
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from prometheus_client.parser import text_string_to_metric_families
from streamlit.testing.v1 import AppTest

from analytics.catalog import library_statements
from collector import runner
from lab.nvml.driver import FakeDriver
from stallscope.settings import Settings, load
from tests.dashboard.conftest import blocks
from tests.nvml.sources import GB

LOAD, STORE = 31 * GB, 4 * GB
"""What the copies carry: host to device, and a little back."""


@contextmanager
def _taking_metrics() -> Iterator[tuple[str, list[ExportMetricsServiceRequest]]]:
    """Yield the address of an OpenTelemetry endpoint, and what it was sent."""
    taken: list[ExportMetricsServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.append(ExportMetricsServiceRequest.FromString(gzip.decompress(body)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - base class
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", taken
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def _collecting(settings: Settings) -> Iterator[None]:
    stop = threading.Event()
    arguments = (settings, library_statements(), stop)
    thread = threading.Thread(target=runner.run, args=arguments)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


def _settings(folder: Path, export_endpoint: str) -> Settings:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    flags = {
        "lake.path": str(folder / "lake"),
        "host.proc": str(folder / "proc"),
        "host.sys": str(folder / "sys"),
        "collect.listen_port": str(port),
        "discovery.enabled": "false",
        "taps.socket": str(folder / "tap.sock"),
        "otlp.export_endpoint": export_endpoint,
    }
    return load(None, {"HOME": str(folder)}, flags)


def _wait(until: Callable[[], object]) -> None:
    give_up = time.monotonic() + 40
    while not until():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.1)


def _exposed(port: int, name: str, uuid: str) -> dict[str, float]:
    """Return the values of a metric of one GPU by direction."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return {
        sample.labels["direction"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.labels["uuid"] == uuid
    }


def _exported(requests: list[ExportMetricsServiceRequest], name: str) -> dict[str, float]:
    """Return the newest values of a metric of the first GPU by OpenTelemetry's direction."""
    return {
        attributes["network.io.direction"]: point.as_double or point.as_int
        for request in requests
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == name
        for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points
        if (attributes := {each.key: each.value.string_value for each in point.attributes})[
            "hw.id"
        ].startswith("GPU-00000000")
    }


def _rates_in_sql(lake: Path, uuid: str) -> tuple[Any, ...]:
    question = """
        SELECT max(rx_window_mean_bytes_per_second), max(tx_window_mean_bytes_per_second)
        FROM gpu_link JOIN device USING (device) WHERE name = ?
    """
    with duckdb.connect(str(lake / "catalog.duckdb"), read_only=True) as connection:
        (row,) = connection.execute(question, [uuid]).fetchall()
    return row


def _pairs_on_the_page(lake: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return direction, rate and ceiling as the page Copy path shows them for the first GPU."""

    def script() -> None:
        from dashboard.app_pages import copy_path  # noqa: PLC0415 - the body is run as a script

        copy_path.page()

    monkeypatch.setenv("STALLSCOPE_LAKE_PATH", str(lake))
    app = AppTest.from_function(script, default_timeout=30)
    app.run()
    assert [exception.message for exception in app.exception] == []
    (verdict,) = blocks(app, "verdict")
    (tile,) = [tile for tile in verdict["tiles"] if tile["name"] == "GPU 0"]
    pairs: list[list[str]] = tile["pairs"]
    return [[cell.replace("\u00a0", " ") for cell in pair] for pair in pairs]


def test_a_copy_to_the_gpu_is_rx_h2d_and_receive_everywhere(
    driver: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in driver.environment.items():
        monkeypatch.setenv(name, value)
    gpu = driver.gpus[0]
    gpu.set_rates(rx=LOAD, tx=STORE)
    rate = "stallscope_pcie_throughput_bytes_per_second"
    with _taking_metrics() as (url, taken):
        settings = _settings(tmp_path, url)
        port = settings.collect.listen_port
        with _collecting(settings):
            _wait(lambda: len(_exposed(port, rate, gpu.uuid)) == 2)
            assert _exposed(port, rate, gpu.uuid) == pytest.approx(
                {"rx": LOAD, "tx": STORE}, rel=0.1
            )
            _wait(lambda: len(_exported(taken, "hw.gpu.pcie.throughput")) == 2)
    assert _exported(taken, "hw.gpu.pcie.throughput") == pytest.approx(
        {"receive": LOAD, "transmit": STORE}, rel=0.1
    )
    moved = _exported(taken, "hw.gpu.io")
    assert moved["receive"] / moved["transmit"] == pytest.approx(LOAD / STORE, rel=0.1)
    assert _rates_in_sql(settings.lake.path, gpu.uuid) == pytest.approx((LOAD, STORE), rel=0.1)
    [h2d, d2h] = _pairs_on_the_page(settings.lake.path, monkeypatch)
    assert h2d[:2] == ["H2D", "31 GB/s mean"]
    assert d2h[:2] == ["D2H", "4 GB/s mean"]
