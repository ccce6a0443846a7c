"""Our own metrics out: names, units, attributes, and an endpoint that is not there."""

from __future__ import annotations

import gzip
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Metric,
    NumberDataPoint,
)

from collector.otlp_export import OtlpExport
from collector.source import Reading, SourceError
from stallscope.exposition.page import Page
from tests.collector.stand_ins import SECOND, ManualClock

_GPU: Mapping[str, object] = {"kind": "gpu", "name": "GPU-5a1e", "gpu_index": 3}
_EVERY_US = SECOND // 20


@dataclass
class _Endpoint:
    """Takes metrics, and answers with a status that a test may change."""

    status: int = 200
    requests: list[ExportMetricsServiceRequest] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    port: int = 0

    def metrics(self) -> dict[str, Metric]:
        """Return the metrics of the newest request."""
        return {
            metric.name: metric
            for resource in self.requests[-1].resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def _handler(endpoint: _Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            plain = gzip.decompress(body)
            endpoint.paths.append(self.path)
            endpoint.headers.append(dict(self.headers.items()))
            endpoint.requests.append(ExportMetricsServiceRequest.FromString(plain))
            self.send_response(endpoint.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - base class
            pass

    return Handler


@pytest.fixture
def endpoint() -> Iterator[_Endpoint]:
    made = _Endpoint()
    server = HTTPServer(("127.0.0.1", 0), _handler(made))
    made.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _nobody_is_left() -> Iterator[None]:
    """Wait for exporters that were left behind: they share the SDK's logger with the next test."""
    yield
    _wait(lambda: all(one.name != "otlp-export-end" for one in threading.enumerate()))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def page(clock: ManualClock) -> Page:
    return Page(lambda _kind, _number: _GPU, clock, {"version": "1", "host": "host-1"})


def _show_link(page: Page, clock: ManualClock, **columns: object) -> None:
    row = {
        "wall_us": 1,
        "mono_us": clock.mono_us,
        "device": 9,
        "state": "working",
        "method": "gpm_cumulative",
        **columns,
    }
    page.observe("gpu_link", [row], 3_600 * SECOND)


@contextmanager
def _exporting(
    page: Page, clock: ManualClock, url: str, headers: str | None = None
) -> Iterator[OtlpExport]:
    made = OtlpExport(
        page,
        clock,
        url,
        headers=headers,
        resource={"host.name": "host-1"},
        interval_us=_EVERY_US,
    )
    try:
        yield made
    finally:
        made.close()


def _wait(until: Callable[[], object]) -> None:
    give_up = time.monotonic() + 20
    while not until():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.02)


def _points(metric: Metric) -> dict[str, NumberDataPoint]:
    """Return the points by their direction."""
    data = metric.sum if metric.HasField("sum") else metric.gauge
    return {_attributes(point).get("network.io.direction", ""): point for point in data.data_points}


def _attributes(point: NumberDataPoint) -> dict[str, str]:
    return {one.key: one.value.string_value for one in point.attributes}


def test_bytes_to_the_gpu_are_received_and_those_from_it_transmitted(
    page: Page, clock: ManualClock, endpoint: _Endpoint
) -> None:
    _show_link(page, clock, rx_bytes=7_000, tx_bytes=500)
    _show_link(page, clock, rx_bytes=2_000, tx_bytes=40)
    with _exporting(page, clock, f"http://127.0.0.1:{endpoint.port}"):
        _wait(lambda: endpoint.requests)
    metric = endpoint.metrics()["hw.gpu.io"]
    points = _points(metric)
    assert metric.unit == "By"
    assert metric.sum.is_monotonic
    cumulative = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert metric.sum.aggregation_temporality == cumulative
    assert {way: point.as_double for way, point in points.items()} == {
        "receive": 9_000,  # H2D, rx
        "transmit": 540,  # D2H, tx
    }
    assert _attributes(points["receive"]) == {
        "hw.type": "gpu",
        "hw.id": "GPU-5a1e",
        "stallscope.gpu.index": "3",
        "stallscope.method": "gpm_cumulative",
        "network.io.direction": "receive",
    }


def test_rates_and_gauges_have_their_units(
    page: Page, clock: ManualClock, endpoint: _Endpoint
) -> None:
    _show_link(
        page,
        clock,
        rx_window_mean_bytes_per_second=4e9,
        tx_window_mean_bytes_per_second=1e9,
        rx_saturation_ratio=0.75,
        rx_ceiling_kind="default",
    )
    state = {"memory_used_bytes": 5_000, "memory_total_bytes": 8_000, "power_watts": 300.5}
    row = {"wall_us": 1, "mono_us": clock.mono_us, "device": 9, "utilisation_ratio": 0.5, **state}
    page.observe("gpu_state", [row], 3_600 * SECOND)
    with _exporting(page, clock, f"http://127.0.0.1:{endpoint.port}"):
        _wait(lambda: endpoint.requests)
    metrics = endpoint.metrics()
    units = {name: metric.unit for name, metric in metrics.items()}
    assert units["hw.gpu.pcie.throughput"] == "By/s"
    assert units["hw.gpu.memory.usage"] == units["hw.gpu.memory.limit"] == "By"
    assert units["hw.power"] == "W"
    assert units["hw.gpu.utilization"] == units["stallscope.pcie_saturation"] == "1"
    rates = _points(metrics["hw.gpu.pcie.throughput"])
    assert {way: point.as_double for way, point in rates.items()} == {
        "receive": 4e9,
        "transmit": 1e9,
    }
    usage = metrics["hw.gpu.memory.usage"]
    assert not usage.sum.is_monotonic
    assert usage.sum.data_points[0].as_double == 5_000
    assert metrics["hw.power"].gauge.data_points[0].as_double == 300.5
    (saturation,) = metrics["stallscope.pcie_saturation"].gauge.data_points
    assert _attributes(saturation) == {
        "gpu": "3",
        "uuid": "GPU-5a1e",
        "kind": "default",
        "direction": "rx",
    }
    # What has no value is not sent: not as 0 either.
    assert "hw.temperature" not in metrics
    assert "hw.gpu.io" not in metrics


def test_what_is_not_measured_any_more_is_not_sent(
    page: Page, clock: ManualClock, endpoint: _Endpoint
) -> None:
    _show_link(page, clock, rx_bytes=7_000)
    with _exporting(page, clock, f"http://127.0.0.1:{endpoint.port}"):
        _wait(lambda: endpoint.requests and "hw.gpu.io" in endpoint.metrics())
        clock.advance(4 * 3_600 * SECOND)
        row = {"source": "gpu_link", "state": "gone", "wall_us": 2, "mono_us": clock.mono_us}
        page.observe("source_health", [row], SECOND)
        _wait(lambda: "hw.gpu.io" not in endpoint.metrics())
    assert "stallscope.collector_source_state" in endpoint.metrics()


def test_who_sends_is_told(page: Page, clock: ManualClock, endpoint: _Endpoint) -> None:
    _show_link(page, clock, rx_bytes=1)
    headers = "authorization=Bearer%20a%2Cb, x-team = infra"
    with _exporting(page, clock, f"http://127.0.0.1:{endpoint.port}/", headers) as export:
        _wait(lambda: endpoint.requests)
        assert export.read() == Reading({})
    attributes = {
        one.key: one.value.string_value
        for one in endpoint.requests[0].resource_metrics[0].resource.attributes
    }
    assert (attributes["service.name"], attributes["host.name"]) == ("stallscope", "host-1")
    assert set(endpoint.paths) == {"/v1/metrics"}
    sent = {name.lower(): value for name, value in endpoint.headers[0].items()}
    assert (sent["authorization"], sent["x-team"]) == ("Bearer a,b", "infra")


def test_a_path_of_its_own_is_kept(page: Page, clock: ManualClock, endpoint: _Endpoint) -> None:
    _show_link(page, clock, rx_bytes=1)
    with _exporting(page, clock, f"http://127.0.0.1:{endpoint.port}/otlp/api/v1/metrics"):
        _wait(lambda: endpoint.requests)
    assert set(endpoint.paths) == {"/otlp/api/v1/metrics"}


def _fails(export: OtlpExport) -> bool:
    try:
        export.read()
    except SourceError:
        return True
    return False


def test_a_refusing_endpoint_is_told_and_tried_less_and_less(
    page: Page, clock: ManualClock, endpoint: _Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.status = 403
    _show_link(page, clock, rx_bytes=1)
    with _exporting(page, clock, f"http://user:pw@127.0.0.1:{endpoint.port}") as export:
        for rest_s in (10, 20, 40, 80, 160, 300, 300):
            before = len(endpoint.requests)
            _wait(lambda tried=before: len(endpoint.requests) > tried)  # type: ignore[misc]
            _wait(lambda wanted=rest_s: f"in {wanted} s" in _trouble(export))  # type: ignore[misc]
            assert len(endpoint.requests) == before + 1
            clock.advance(rest_s * SECOND)
        endpoint.status = 200
        _wait(lambda: not _fails(export))
    assert caplog.records == []


def _trouble(export: OtlpExport) -> str:
    try:
        export.read()
    except SourceError as error:
        return str(error)
    return ""


def test_the_reason_names_place_and_status_and_no_credentials(
    page: Page, clock: ManualClock, endpoint: _Endpoint
) -> None:
    endpoint.status = 403
    _show_link(page, clock, rx_bytes=1)
    with _exporting(page, clock, f"http://user:pw@127.0.0.1:{endpoint.port}") as export:
        _wait(lambda: _fails(export))
        trouble = _trouble(export)
    assert trouble.startswith(f"127.0.0.1:{endpoint.port} does not take metrics, next try in 10 s")
    assert "403" in trouble
    assert "pw" not in trouble


def test_an_endpoint_that_is_down_is_silent_and_left_in_time(
    page: Page, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    _show_link(page, clock, rx_bytes=1)
    with _exporting(page, clock, f"http://127.0.0.1:{port}") as export:
        _wait(lambda: "refused" in _trouble(export))
        began = time.monotonic()
    assert time.monotonic() - began < 2.5
    assert caplog.records == []


def test_an_endpoint_that_never_answers_holds_nobody(page: Page, clock: ManualClock) -> None:
    _show_link(page, clock, rx_bytes=1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with _exporting(page, clock, f"http://127.0.0.1:{silent.getsockname()[1]}") as export:
            connection, _ = silent.accept()
            assert export.read() == Reading({})
            began = time.monotonic()
        assert time.monotonic() - began < 3
        connection.close()


def test_lines_of_the_sdk_go_to_the_log_again_after_the_end(
    page: Page, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with _exporting(page, clock, "http://127.0.0.1:9"):
        logging.getLogger("opentelemetry.sdk").warning("within")
    logging.getLogger("opentelemetry.sdk").warning("after")
    assert [record.getMessage() for record in caplog.records] == ["after"]


def test_a_last_export_happens_at_the_end(
    page: Page, clock: ManualClock, endpoint: _Endpoint
) -> None:
    _show_link(page, clock, rx_bytes=1)
    export = OtlpExport(page, clock, f"http://127.0.0.1:{endpoint.port}")
    export.close()
    assert len(endpoint.requests) == 1
    assert "hw.gpu.io" in endpoint.metrics()
