"""Recordings of OTLP: vLLM's own spans whole, and what other projects publish."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.otlp_bounds import BodyError
from collector.otlp_intake import Intake
from collector.otlp_json import read_json
from collector.otlp_protobuf import read_protobuf
from tests.collector.otlp_bodies import as_protobuf
from tests.collector.stand_ins import SECOND, ManualClock

_LAST_US = 1_795_988_110 * SECOND


def _lines(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().splitlines() if line.strip()]


@pytest.fixture
def intake() -> Intake:
    clock = ManualClock()
    clock.wall_offset_us = _LAST_US - clock.mono_us
    return Intake(clock)


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_every_recorded_request_of_vllm_is_a_row(
    corpus: Path, intake: Intake, encoding: str
) -> None:
    for line in _lines(corpus / "own-captures/otlp/otlp_spans.jsonl"):
        document = json.loads(line)
        taken = (
            intake.take(read_json, line)
            if encoding == "json"
            else intake.take(read_protobuf, as_protobuf(document))
        )
        assert (taken.rejected, taken.message) == (0, "")
    arrived = intake.drain()
    assert (len(arrived.requests), arrived.ignored, arrived.rejects) == (56, 11, 0)
    for request in arrived.requests:
        row = request.columns
        parts = ("queue_us", "prefill_us", "decode_us", "inference_us", "ttft_us", "e2e_us")
        queue, prefill, decode, inference, ttft, e2e = (_number(row[name]) for name in parts)
        assert abs(prefill + decode - inference) <= 2  # both on the engine's clock, rounded
        assert queue + prefill <= ttft + 1_000  # another clock: the front end's
        assert ttft <= e2e
        assert inference <= e2e + 1_000
        arrival = _number(row["arrival_wall_us"])
        # The span ends when it is made, after the last token: 0.6 ms later here.
        assert 0 <= _number(row["wall_us"]) - arrival - e2e < 20_000
        assert _number(row["output_tokens"]) in {128, 40}
        assert row["tpot_us"] == pytest.approx(decode / (_number(row["output_tokens"]) - 1))
        assert row["finish"] is None  # 0.32 does not tell


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def test_a_document_is_the_same_in_json_lines_and_protobuf(corpus: Path) -> None:
    folder = corpus / "otlp/otlp2parquet"
    assert read_json((folder / "trace.json").read_bytes()).ignored == 2
    assert read_protobuf((folder / "trace.pb").read_bytes()).ignored == 2
    lines = [read_json(line) for line in _lines(folder / "traces.jsonl")]
    whole = read_protobuf((folder / "traces.pb").read_bytes())
    assert len(lines) == 19
    assert sum(batch.ignored for batch in lines) == whole.ignored > 0
    assert [batch.refused for batch in lines] == [0] * 19


def _as_engine(document: dict[str, Any]) -> dict[str, Any]:
    """Return a request whose spans pass for those of an engine, all else as recorded."""
    for group in document["resourceSpans"]:
        for scope in group.get("scopeSpans", []):
            scope["scope"] = {"name": "vllm.tracing.otel"}
            for span in scope["spans"]:
                span["name"] = "llm_request"
    return document


def test_recorded_attributes_of_all_kinds_read_the_same(corpus: Path) -> None:
    text = (corpus / "otlp/otlp2parquet/trace.json").read_text(encoding="utf-8")
    message = ExportTraceServiceRequest.FromString(
        (corpus / "otlp/otlp2parquet/trace.pb").read_bytes()
    )
    for group in message.resource_spans:
        for scope in group.scope_spans:
            scope.scope.name = "vllm.tracing.otel"
            for span in scope.spans:
                span.name = "llm_request"
    from_json = read_json(json.dumps(_as_engine(json.loads(text))).encode())
    from_protobuf = read_protobuf(message.SerializeToString())
    assert len(from_json.spans) == 2
    key = repr
    assert sorted(map(key, from_json.spans)) == sorted(map(key, from_protobuf.spans))


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("empty.jsonl", {}),
        ("whitespace.jsonl", {}),
        ("malformed.jsonl", {"read": 2, "refused": 2}),
        ("single_trace.jsonl", {"read": 1}),
        ("traces_simple.jsonl", {"read": 3}),
        ("traces_large_attrs.jsonl", {"read": 1}),
        ("traces_deep_nesting.jsonl", {"read": 1}),
        ("metrics_simple.jsonl", {"read": 3}),
        ("logs_simple.jsonl", {"read": 3}),
    ],
)
def test_published_edge_cases(corpus: Path, name: str, outcome: dict[str, int]) -> None:
    seen: Counter[str] = Counter()
    for line in _lines(corpus / "otlp/duckdb-otlp" / name):
        try:
            batch = read_json(line)
        except BodyError:
            seen["refused"] += 1
        else:
            seen["read"] += 1
            assert (batch.spans, batch.refused) == ([], 0)
    assert seen == outcome


def test_signals_of_other_kinds_are_no_spans(corpus: Path) -> None:
    folder = corpus / "otlp/duckdb-otlp"
    traces = read_protobuf((folder / "otlp_traces.pb").read_bytes())
    assert (traces.ignored, traces.refused) == (1, 0)
    for name in ("otlp_logs.pb", "otlp_metrics.pb"):
        # Sent to the wrong path: whatever protobuf makes of it, no request comes out.
        assert read_protobuf((folder / name).read_bytes()).spans == []


def test_what_only_looks_like_spans_is_nothing(corpus: Path) -> None:
    for path in sorted((corpus / "otlp/inference-perf").glob("*.json")):
        batch = read_json(path.read_bytes())
        assert (batch.spans, batch.ignored, batch.refused) == ([], 0, 0)
