"""The source: its ports and states, spans of tests/captures and spans of a real SDK."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind

from collector.known_engine import KnownEngine
from collector.otlp_traces import OtlpTraces
from collector.request_ids import RequestIds
from collector.source import NoData, Reading, Row, SourceError, State
from stallscope.settings import OtlpSettings
from tests.collector.fake_machine import FakeMachine, refusal_of
from tests.collector.otlp_bodies import (
    ENDED_US,
    Json,
    as_json,
    captured,
    double,
    request,
    span,
    without,
)
from tests.collector.stand_ins import SECOND

_CAPTURED_US = 1_795_988_078_000_000  # when the recorded requests ended, about
_ENGINE = KnownEngine(
    engine=7,
    name="chat",
    endpoint="http://127.0.0.1:8000",
    host="127.0.0.1",
    port=8_000,
    rank="",
    model="tiny-qwen2",
    seen_mono_us=0,
)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


@contextmanager
def _source(
    fake: FakeMachine,
    settings: OtlpSettings,
    engines: tuple[KnownEngine, ...] = (_ENGINE,),
    token: str | None = None,
) -> Iterator[OtlpTraces]:
    ids = RequestIds(fake.machine.names)
    made = OtlpTraces(fake.machine, settings, token=token, request_ids=ids, engines=lambda: engines)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def http() -> OtlpSettings:
    return OtlpSettings(http_enabled=True, http_port=_free_port())


def _post(settings: OtlpSettings, document: Json) -> None:
    url = f"http://127.0.0.1:{settings.http_port}/v1/traces"
    sent = urllib.request.Request(url, as_json(document), {"Content-Type": "application/json"})
    with urllib.request.urlopen(sent, timeout=10) as answer:  # noqa: S310 - ours
        assert answer.status == 200


def _reading(source: OtlpTraces) -> Reading:
    reading = source.read()
    assert isinstance(reading, Reading), reading
    return reading


def _rows(reading: Reading) -> list[Row]:
    rows = reading.rows["request"]
    assert isinstance(rows, list)
    return rows


def test_no_port_is_open_unless_a_setting_says_so(fake: FakeMachine) -> None:
    with _source(fake, OtlpSettings()) as source:
        refusal = refusal_of(source)
    assert refusal.state is State.DISABLED
    assert "otlp.http_enabled" in refusal.reason


def test_a_collector_that_takes_no_spans_does_not_load_their_classes() -> None:
    program = "import sys, collector.runner; print(*{m.partition('.')[0] for m in sys.modules})"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(result.stdout.split())
    assert "collector" in loaded
    assert not loaded & {"opentelemetry", "google", "grpc", "requests"}


def test_recorded_spans_become_rows(fake: FakeMachine, http: OtlpSettings) -> None:
    fake.clock.wall_offset_us = _CAPTURED_US + 30 * SECOND - fake.clock.mono_us
    with _source(fake, http) as source:
        silent = refusal_of(source)  # nothing arrives, and the engine says nothing: vllm#56696
        assert silent.state is State.NOT_FOUND
        assert silent.reason.endswith("no spans have come yet")
        start_up, load, after = captured()
        _post(http, start_up)
        refusal = refusal_of(source)
        assert refusal.reason.endswith("2 spans came, none of them a request of vLLM's")
        _post(http, load)
        _post(http, after)
        reading = _reading(source)
    assert (reading.rejects, reading.reason) == (0, "")
    rows = _rows(reading)
    assert {row["engine"] for row in rows} == {7}
    assert {row["level"] for row in rows} == {"trace"}
    assert [row["prompt_tokens"] for row in rows] == [300, 300, 300, 120]
    assert [row["output_tokens"] for row in rows] == [128, 128, 128, 40]
    first = rows[0]
    # As recorded: 0.06842255592346191 s, 3.178700001171819e-05 s, 0.8348047733306885 s, and
    # 0.767608788000075 s of decoding over 127 further tokens.
    assert first["ttft_us"] == 68_423
    assert first["queue_us"] == 32
    assert first["e2e_us"] == 834_805
    assert first["tpot_us"] == pytest.approx(767_609 / 127)
    assert first["wall_us"] == 1_795_988_078_367_725
    assert first["arrival_wall_us"] == 1_795_988_077_532_416
    assert first["mono_us"] == fake.clock.mono_us - (30 * SECOND - 367_725)
    # The load test was run twice with the same ids: the second cmpl-probe-0-0 is the same name.
    numbers = [row["request"] for row in rows]
    assert numbers[0] == numbers[3]
    assert len(set(numbers)) == 3
    names = reading.rows["request_name"]
    assert [row["request"] for row in names] == numbers[:3]


def test_rows_and_columns_fit_the_schema(fake: FakeMachine, http: OtlpSettings) -> None:
    from stallscope.schema import table  # noqa: PLC0415 - only here

    with _source(fake, http) as source:
        source.read()
        _post(http, request(span()))
        (row,) = _rows(_reading(source))
    assert set(row) <= {column.name for column in table("request").columns}
    missing = {column.name for column in table("request").columns if not column.nullable} - set(row)
    assert missing == set()


def _send_by_sdk(
    settings: OtlpSettings,
    count: int,
    compression: Compression = Compression.NoCompression,
    headers: dict[str, str] | None = None,
) -> None:
    """Send spans as vLLM does, vllm/tracing/otel.py: start in the past, end now."""
    url = f"http://127.0.0.1:{settings.http_port}/v1/traces"
    exporter = OTLPSpanExporter(endpoint=url, compression=compression, headers=headers)
    provider = TracerProvider(resource=Resource({"service.name": "chat"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("vllm.tracing.otel")
    for number in range(count):
        ended_ns = ENDED_US * 1_000
        made = tracer.start_span(
            "llm_request", kind=SpanKind.SERVER, start_time=ended_ns - 2_000_000_000
        )
        made.set_attributes(
            {
                "gen_ai.request.id": f"cmpl-{number}-0",
                "gen_ai.latency.time_to_first_token": 0.5,
                "gen_ai.latency.e2e": 2.0,
                "gen_ai.usage.prompt_tokens": 1_000 + number,
                "gen_ai.prompt": "secret",
            }
        )
        made.end(ended_ns)
    provider.shutdown()


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_a_real_sdk_loses_nothing(
    fake: FakeMachine, http: OtlpSettings, compression: Compression
) -> None:
    with _source(fake, http) as source:
        source.read()
        _send_by_sdk(http, 1_500, compression)
        reading = _reading(source)
    rows = _rows(reading)
    assert [row["prompt_tokens"] for row in rows] == list(range(1_000, 2_500))
    assert {(row["ttft_us"], row["e2e_us"]) for row in rows} == {(500_000, 2_000_000)}
    assert {row["arrival_wall_us"] for row in rows} == {ENDED_US - 2 * SECOND}
    assert reading.reason == ""


def test_an_sdk_shows_its_token(fake: FakeMachine, http: OtlpSettings) -> None:
    with _source(fake, http, token="right") as source:  # noqa: S106 - a test's token
        source.read()
        _send_by_sdk(http, 1, headers={"authorization": "Bearer right"})
        assert len(_rows(_reading(source))) == 1


def test_refused_spans_make_a_partial_reading(fake: FakeMachine, http: OtlpSettings) -> None:
    with _source(fake, http) as source:
        source.read()
        bad = span(attributes=without("gen_ai.request.id"))
        _post(http, request(bad, span([double("gen_ai.latency.e2e", "NaN")])))
        reading = _reading(source)
        assert (len(_rows(reading)), reading.rejects) == (1, 2)
        assert reading.reason == "2 refused, first: a span without gen_ai.request.id"
        assert _reading(source).reason == ""


def test_both_ports_feed_one_source(fake: FakeMachine) -> None:
    settings = OtlpSettings(
        http_enabled=True, http_port=_free_port(), grpc_enabled=True, grpc_port=_free_port()
    )
    with _source(fake, settings) as source:
        reason = refusal_of(source).reason
    assert f"127.0.0.1:{settings.http_port} and 127.0.0.1:{settings.grpc_port}" in reason


def test_a_taken_port_is_named_and_the_other_works(fake: FakeMachine, http: OtlpSettings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        settings = OtlpSettings(
            http_enabled=True, http_port=http.http_port, grpc_enabled=True, grpc_port=taken
        )
        with _source(fake, settings) as source:
            source.read()
            _post(settings, request(span()))
            reading = _reading(source)
            assert len(_rows(reading)) == 1
            assert f"127.0.0.1:{taken} cannot be listened on" in reading.reason
            assert "otlp.grpc_port" in reading.reason


def test_a_port_that_is_taken_at_first_is_tried_again(
    fake: FakeMachine, http: OtlpSettings
) -> None:
    with _source(fake, http) as source:
        with (
            socket.create_server(("127.0.0.1", http.http_port)),
            pytest.raises(SourceError, match="Address already in use"),
        ):
            source.read()
        with pytest.raises(SourceError):  # not tried yet
            source.read()
        fake.clock.advance(11 * SECOND)
        assert refusal_of(source).state is State.NOT_FOUND
        _post(http, request(span()))
        reading = _reading(source)
        assert (len(_rows(reading)), reading.reason) == (1, "")


def test_beside_a_running_collector_the_port_is_no_failure(
    fake: FakeMachine, http: OtlpSettings
) -> None:
    with _source(fake, http) as running, _source(fake, http) as doctor:
        running.read()
        refusal = refusal_of(doctor)
    assert refusal.state is State.NOT_APPLICABLE
    assert "a collector that runs on this host" in refusal.reason


def test_what_is_not_installed_is_named(
    fake: FakeMachine, http: OtlpSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "collector.otlp_http", None)
    with _source(fake, http) as source:
        refusal = source.read()
    assert isinstance(refusal, NoData)
    assert refusal.state is State.UNSUPPORTED
    assert "otlp.http_enabled needs stallscope[otlp]" in refusal.reason


def test_a_closed_source_frees_its_port(fake: FakeMachine, http: OtlpSettings) -> None:
    with _source(fake, http) as source:
        source.read()
    give_up = time.monotonic() + 5
    while time.monotonic() < give_up:
        try:
            with socket.create_server(("127.0.0.1", http.http_port)):
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail("the port is still taken")
