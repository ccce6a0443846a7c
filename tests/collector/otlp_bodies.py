"""Bodies of spans that tests send: one request of vLLM's, changed as a test wants it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.collector.stand_ins import SECOND, WALL

CAPTURE = Path(__file__).resolve().parent.parent / "captures" / "otlp" / "vllm-0.32__spans.jsonl"
ENDED_US = WALL + 1_000 * SECOND
"""When `span` ended: the very moment that a `ManualClock` shows at first."""

LATENCIES: Mapping[str, float] = {
    "time_to_first_token": 0.25,
    "time_in_queue": 0.0625,
    "time_in_model_prefill": 0.125,
    "time_in_model_decode": 1.5,
    "time_in_model_inference": 1.625,
    "e2e": 1.75,
}
"""Seconds; all of them different, and each a sum of powers of two."""

Json = dict[str, object]


def double(name: str, value: object) -> Json:
    """Return an attribute that holds a double."""
    return {"key": name, "value": {"doubleValue": value}}


def integer(name: str, value: object) -> Json:
    """Return an attribute that holds a 64-bit integer, which JSON spells as a string."""
    return {"key": name, "value": {"intValue": value}}


def text(name: str, value: object) -> Json:
    """Return an attribute that holds a text."""
    return {"key": name, "value": {"stringValue": value}}


def attributes(name: str = "cmpl-a-0") -> list[Json]:
    """Return what vLLM says of a finished request, its prompt among it."""
    return [
        *(double(f"gen_ai.latency.{key}", value) for key, value in LATENCIES.items()),
        integer("gen_ai.usage.prompt_tokens", "300"),
        integer("gen_ai.usage.completion_tokens", "4"),
        text("gen_ai.request.id", name),
        text("gen_ai.prompt", "a secret question"),
        text("gen_ai.completion", "a secret answer"),
    ]


def span(extra: Sequence[Json] = (), /, **changes: object) -> Json:
    """Return a span of a request that ended at `ENDED_US` and took 1.75 s.

    Args:
        extra: Attributes to add; one with the same key wins over the usual one.
        changes: Members of the span to replace.
    """
    keys = {one["key"] for one in extra}
    usual = [one for one in attributes() if one["key"] not in keys]
    return {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "name": "llm_request",
        "kind": 2,
        "startTimeUnixNano": str((ENDED_US - 1_750_000) * 1_000),
        "endTimeUnixNano": str(ENDED_US * 1_000),
        "attributes": [*usual, *extra],
        **changes,
    }


def without(name: str) -> list[Json]:
    """Return the usual attributes but one."""
    return [one for one in attributes() if one["key"] != name]


def request(
    *spans: Json, scope: str = "vllm.tracing.otel", resource: Sequence[Json] = ()
) -> dict[str, object]:
    """Return an ExportTraceServiceRequest with these spans."""
    scoped = {"scope": {"name": scope}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": {"attributes": list(resource)}, "scopeSpans": [scoped]}]}


def as_json(document: Mapping[str, object]) -> bytes:
    """Return a request in JSON."""
    return json.dumps(document).encode()


def as_protobuf(document: Mapping[str, object]) -> bytes:
    """Return a request in protobuf. Trace ids come out as other bytes; nobody here reads them."""
    message = ParseDict(dict(document), ExportTraceServiceRequest())
    return bytes(message.SerializeToString())


def captured() -> list[dict[str, object]]:
    """Return the recorded bodies."""
    lines = CAPTURE.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
