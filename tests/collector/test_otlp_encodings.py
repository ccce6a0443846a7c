"""Damaged and hostile bodies in both encodings, and that both say the same."""

from __future__ import annotations

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.otlp_bounds import LONGEST_BODY, BodyError
from collector.otlp_json import read_json
from collector.otlp_protobuf import read_protobuf
from collector.otlp_spans import RESOURCE_ATTRIBUTES, SPAN_ATTRIBUTES
from tests.collector.otlp_bodies import (
    Json,
    as_json,
    as_protobuf,
    double,
    integer,
    request,
    span,
    text,
)

_KEYS = st.sampled_from(sorted(SPAN_ATTRIBUTES)) | st.text(max_size=5)
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_VALUES = (
    st.builds(double, _KEYS, st.floats(allow_nan=False))
    | st.builds(lambda key, value: integer(key, str(value)), _KEYS, _INT64)
    | st.builds(text, _KEYS, _TEXTS)
)
_TIMES = st.integers(0, 2**64 - 1).map(str)
_SPANS = st.lists(
    st.builds(
        lambda name, start, end, attributes, code: {
            "name": name,
            "startTimeUnixNano": start,
            "endTimeUnixNano": end,
            "attributes": attributes,
            "status": {"code": code},
        },
        st.sampled_from(["llm_request", "Load model"]),
        _TIMES,
        _TIMES,
        st.lists(_VALUES, max_size=6),
        st.integers(0, 2),
    ),
    max_size=4,
)


def _spelled(value: object) -> object:
    """Return a body as JSON spells it: infinities are texts."""
    if isinstance(value, dict):
        return {key: _spelled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_spelled(inner) for inner in value]
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


@given(spans=_SPANS, scope=st.sampled_from(["vllm.tracing.otel", "other"]), service=_TEXTS)
def test_both_encodings_say_the_same(spans: list[Json], scope: str, service: str) -> None:
    document = _spelled(request(*spans, scope=scope, resource=[text("service.name", service)]))
    assert isinstance(document, dict)
    assert read_json(as_json(document)) == read_protobuf(as_protobuf(document))


@given(body=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for read in (read_json, read_protobuf):
        with suppress(BodyError):
            assert len(read(body).spans) <= len(body)


@given(cut=st.integers(0, 10_000), place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_damaged_body_is_read_or_refused(cut: int, place: int, byte: int) -> None:
    whole = bytearray(as_protobuf(request(span(), span(name="Load model"))))
    whole[place % len(whole)] = byte
    with suppress(BodyError):
        batch = read_protobuf(bytes(whole[: cut % len(whole) + 1]))
        assert batch.expected <= len(whole) // 2  # an empty span takes two bytes


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null!",
        b"[]",
        b'"resourceSpans"',
        b'{"resourceSpans": 5}',
        b'{"resourceSpans": [5]}',
        b'{"resourceSpans": [{"scopeSpans": {}}]}',
        b'{"resourceSpans": [{"resource": []}, {"scopeSpans": [7]}]}',
        b"{incomplete json",
        b"\xff\xfe\x00",
        b"[" * 200_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b'{"n": ' + b"9" * 5_000 + b"}",
    ],
    ids=range(13),
)
def test_what_is_no_request_in_json_is_refused(body: bytes) -> None:
    with pytest.raises(BodyError):
        read_json(body)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"null",
        b' {"invalid": "not otlp json"}\n',
        b'{"resourceSpans": null}',
        b"\xef\xbb\xbf{}",
    ],
    ids=["empty", "null", "other", "no resources", "byte order mark"],
)
def test_an_empty_request_in_json_is_fine(body: bytes) -> None:
    assert read_json(body).spans == []


def test_nulls_are_defaults() -> None:
    nulls: Json = {
        "name": "llm_request",
        "startTimeUnixNano": None,
        "endTimeUnixNano": None,
        "attributes": None,
        "status": None,
    }
    scoped = {"scope": {"name": "vllm.x"}, "spans": [nulls]}
    body = as_json({"resourceSpans": [{"resource": None, "scopeSpans": [scoped]}]})
    (found,) = read_json(body).spans
    assert (found.start_ns, found.end_ns, found.attributes, found.failed) == (0, 0, {}, False)


@pytest.mark.parametrize(
    "spoilt",
    [
        "a text",
        {"name": "llm_request", "attributes": {}},
        {"name": "llm_request", "status": 2},
        {"name": "llm_request", "endTimeUnixNano": "tomorrow"},
        {"name": "llm_request", "endTimeUnixNano": -1},
        {"name": "llm_request", "endTimeUnixNano": 1.5},
        {"name": "llm_request", "endTimeUnixNano": True},
        {"name": "llm_request", "endTimeUnixNano": "9" * 33},
        {"name": "llm_request", "endTimeUnixNano": 2**64},
        {"name": "llm_request", "attributes": [{"key": "gen_ai.request.id", "value": "bare"}]},
    ],
    ids=range(10),
)
def test_a_spoilt_span_is_refused_and_its_neighbours_are_kept(spoilt: object) -> None:
    scoped = {"scope": {"name": "vllm.x"}, "spans": [span(), spoilt, span()]}
    batch = read_json(as_json({"resourceSpans": [{"scopeSpans": [scoped]}]}))
    assert (len(batch.spans), batch.refused, batch.ignored) == (2, 1, 0)
    assert batch.why


def test_attributes_that_are_none_are_passed_over() -> None:
    odd = [5, {}, {"key": 3}, {"key": "gen_ai.request.id"}, {"key": "gen_ai.latency.e2e"}]
    (found,) = read_json(as_json(request(span(attributes=odd)))).spans
    assert dict(found.attributes) == {"gen_ai.request.id": None, "gen_ai.latency.e2e": None}


@pytest.mark.parametrize(
    "value",
    [
        {"intValue": True},
        {"intValue": "x"},
        {"intValue": "9" * 40},
        {"intValue": 2**63},
        {"intValue": 1.5},
        {"doubleValue": True},
        {"doubleValue": "wide"},
        {"doubleValue": "1" * 40},
        {"doubleValue": 10**400},
        {"doubleValue": []},
        {"stringValue": 5},
        {"arrayValue": {"values": [5]}},
        {"bytesValue": "AAAA"},
    ],
    ids=range(13),
)
def test_a_value_of_no_kind_is_none(value: Json) -> None:
    odd: Json = {"key": "gen_ai.latency.e2e", "value": value}
    (found,) = read_json(as_json(request(span(attributes=[odd])))).spans
    assert dict(found.attributes) == {"gen_ai.latency.e2e": None}


def test_more_objects_than_a_body_may_hold_are_refused_before_they_are_made() -> None:
    with pytest.raises(BodyError, match="more than 262144 objects"):
        read_json(b"[" + b"{}," * 262_144 + b"{}]")


def test_what_is_no_json_is_not_quoted() -> None:
    with pytest.raises(BodyError, match=r"^no JSON: JSONDecodeError$"):
        read_json(b'{"gen_ai.prompt": "secret')


def _field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field of the wire format."""
    length, size = bytearray(), len(content)
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    length.append(size)
    return bytes([number << 3 | 2]) + bytes(length) + content


def test_a_body_of_empty_messages_is_refused_before_they_are_made() -> None:
    empty = b"\x12\x00" * (LONGEST_BODY // 2 - 20)
    with pytest.raises(BodyError, match="more than 50000 spans"):
        read_protobuf(_field(1, _field(2, empty)))
    with pytest.raises(BodyError, match="2097152 resources"):
        read_protobuf(b"\x0a\x00" * (LONGEST_BODY // 2))
    with pytest.raises(BodyError, match="scopes, more than 4096"):
        read_protobuf(_field(1, empty))


def test_a_span_that_is_too_long_or_broken_is_refused_alone() -> None:
    scope = _field(1, _field(1, b"vllm.x"))
    good = ExportTraceServiceRequest.FromString(as_protobuf(request(span())))
    spelled = good.resource_spans[0].scope_spans[0].spans[0].SerializeToString()
    attributes = b"\x4a\x00" * 40_000
    spans = _field(2, spelled) + _field(2, attributes) + _field(2, b"\xff") + _field(2, spelled)
    batch = read_protobuf(_field(1, _field(2, scope + spans)))
    assert (len(batch.spans), batch.refused) == (2, 2)
    assert batch.why == "a span of 80000 bytes, more than 65536"


@pytest.mark.parametrize("place", ["resource", "scope"])
def test_a_long_resource_or_scope_refuses_the_body(place: str) -> None:
    long = _field(1, b"\x00" * 70_000)
    inner = _field(2, long) if place == "scope" else long
    with pytest.raises(BodyError, match=f"a {place} of 7000. bytes"):
        read_protobuf(_field(1, inner))


def test_a_resource_in_two_parts_is_one() -> None:
    parts = [
        ExportTraceServiceRequest.FromString(as_protobuf(request(resource=[text(key, "x")])))
        .resource_spans[0]
        .resource.SerializeToString()
        for key in sorted(RESOURCE_ATTRIBUTES)
    ]
    scope = _field(1, _field(1, b"vllm.x"))
    good = ExportTraceServiceRequest.FromString(as_protobuf(request(span())))
    spelled = good.resource_spans[0].scope_spans[0].spans[0].SerializeToString()
    whole = b"".join(_field(1, part) for part in parts) + _field(2, scope + _field(2, spelled))
    (found,) = read_protobuf(_field(1, whole)).spans
    assert dict(found.resource) == dict.fromkeys(RESOURCE_ATTRIBUTES, "x")


def test_deep_protobuf_is_refused() -> None:
    value = b""
    for _ in range(200):
        value = _field(5, _field(1, value))  # AnyValue.array_value.values
    deep = _field(9, _field(1, b"gen_ai.request.id") + _field(2, value))
    scope = _field(1, _field(1, b"vllm.x"))
    batch = read_protobuf(_field(1, _field(2, scope + _field(2, deep))))
    assert (batch.spans, batch.refused) == ([], 1)


def test_trace_ids_may_be_spelled_in_any_way() -> None:
    for trace_id in ("5b8efff798038103d269b633813fc60c", "THXpeTbbS8BpugUKzYtRQA==", "", 7):
        assert len(read_json(as_json(request(span(traceId=trace_id)))).spans) == 1


def test_json_of_the_largest_allowed_body_is_read() -> None:
    padding = [text("padding", "x" * 1_000)] * 3_800
    body = json.dumps(request(span(padding))).encode()
    assert LONGEST_BODY - 300_000 < len(body) <= LONGEST_BODY
    assert len(read_json(body).spans) == 1
