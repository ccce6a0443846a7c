"""What a span must be to become a request, and what of it is left out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from collector.otlp_bounds import BodyError
from collector.otlp_intake import Read
from collector.otlp_json import read_json
from collector.otlp_protobuf import read_protobuf
from collector.otlp_spans import Batch, SpanError, TracedRequest, parse_request
from stallscope.clock import Instant
from tests.collector.otlp_bodies import (
    ENDED_US,
    Json,
    as_json,
    as_protobuf,
    double,
    integer,
    request,
    span,
    text,
    without,
)
from tests.collector.stand_ins import SECOND

_NOW = Instant(wall_us=ENDED_US + 2 * SECOND, mono_us=500 * SECOND)


def _read(document: dict[str, object], kind: str) -> Batch:
    return read_json(as_json(document)) if kind == "json" else read_protobuf(as_protobuf(document))


@pytest.fixture(params=["json", "protobuf"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _parse(kind: str, one: Json, resource: Sequence[Json] = ()) -> TracedRequest:
    (found,) = _read(request(one, resource=resource), kind).spans
    return parse_request(found, _NOW)


def test_a_request_has_times_in_microseconds_and_counts(kind: str) -> None:
    found = _parse(kind, span())
    assert found.name == "cmpl-a-0"
    assert found.refused == ()
    assert found.columns == {
        "wall_us": ENDED_US,
        "mono_us": 498 * SECOND,  # two seconds before it came
        "arrival_wall_us": ENDED_US - 1_750_000,
        "route": None,
        "finish": None,
        "level": "trace",
        "ttft_us": 250_000,
        "queue_us": 62_500,
        "prefill_us": 125_000,
        "decode_us": 1_500_000,
        "inference_us": 1_625_000,
        "e2e_us": 1_750_000,
        "prompt_tokens": 300,
        "output_tokens": 4,
        "tpot_us": 500_000,  # 1.5 s over the three tokens after the first
    }


def test_nothing_of_prompt_and_answer_gets_in(kind: str) -> None:
    (found,) = _read(request(span()), kind).spans
    assert "secret" not in repr(found)
    assert "secret" not in repr(parse_request(found, _NOW))


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, -0.25, -1_795_988_077.5, 31 * 86_400.0]
)
def test_a_time_that_makes_no_sense_is_null_and_said(kind: str, value: float) -> None:
    spelled = value if math.isfinite(value) else {math.inf: "Infinity"}.get(value, "-Infinity")
    shown = "NaN" if math.isnan(value) else spelled
    found = _parse(kind, span([double("gen_ai.latency.e2e", shown)]))
    assert found.columns["e2e_us"] is None
    assert found.columns["ttft_us"] == 250_000
    assert [one.partition(" ")[0] for one in found.refused] == ["gen_ai.latency.e2e"]


def test_zero_is_a_time_and_a_count(kind: str) -> None:
    zero = span([double("gen_ai.latency.time_in_queue", 0.0)])
    assert _parse(kind, zero).columns["queue_us"] == 0
    nothing = span([integer("gen_ai.usage.completion_tokens", "0")])
    found = _parse(kind, nothing)
    assert (found.columns["output_tokens"], found.columns["tpot_us"]) == (0, None)
    assert found.refused == ()


def test_one_token_has_no_mean_gap(kind: str) -> None:
    found = _parse(kind, span([integer("gen_ai.usage.completion_tokens", "1")]))
    assert found.columns["tpot_us"] is None


def test_what_is_not_there_is_null_without_a_word(kind: str) -> None:
    found = _parse(kind, span(attributes=without("gen_ai.latency.time_to_first_token")))
    assert found.columns["ttft_us"] is None
    assert found.refused == ()


@pytest.mark.parametrize("value", ["-1", str(2**32), str(2**63 - 1)])
def test_a_count_outside_its_column_is_null_and_said(kind: str, value: str) -> None:
    found = _parse(kind, span([integer("gen_ai.usage.prompt_tokens", value)]))
    assert found.columns["prompt_tokens"] is None
    assert len(found.refused) == 1


@pytest.mark.parametrize(
    "attribute",
    [
        text("gen_ai.usage.prompt_tokens", "many"),
        double("gen_ai.usage.prompt_tokens", 1.5),
        {"key": "gen_ai.usage.prompt_tokens", "value": {"boolValue": True}},
        {"key": "gen_ai.usage.prompt_tokens", "value": {}},
        {"key": "gen_ai.usage.prompt_tokens", "value": {"kvlistValue": {"values": []}}},
    ],
    ids=["text", "half", "bool", "empty", "map"],
)
def test_a_count_of_another_kind_is_null_and_said(kind: str, attribute: Json) -> None:
    found = _parse(kind, span([attribute]))
    assert found.columns["prompt_tokens"] is None
    assert len(found.refused) == 1
    assert "many" not in found.refused[0]  # a text may be anything, a prompt too


def test_a_whole_double_counts_as_well(kind: str) -> None:
    found = _parse(kind, span([double("gen_ai.usage.prompt_tokens", 12.0)]))
    assert found.columns["prompt_tokens"] == 12


@pytest.mark.parametrize(
    "attributes",
    [without("gen_ai.request.id"), [text("gen_ai.request.id", "")]],
    ids=["none", "empty"],
)
def test_a_span_without_a_request_id_is_refused(kind: str, attributes: list[Json]) -> None:
    with pytest.raises(SpanError, match=r"without gen_ai\.request\.id"):
        _parse(kind, span(attributes=attributes))


@pytest.mark.parametrize(
    ("end_us", "why"),
    [
        (0, "without an end time"),
        (_NOW.wall_us - 3_601 * SECOND, "3601 s ago"),
        (_NOW.wall_us + 61 * SECOND, "61 s in the future"),
        (2**64 // 1_000, "in the future"),
    ],
    ids=["none", "old", "future", "largest"],
)
def test_a_span_of_another_time_is_refused(kind: str, end_us: int, why: str) -> None:
    with pytest.raises(SpanError, match=why):
        _parse(kind, span(endTimeUnixNano=str(end_us * 1_000)))


@pytest.mark.parametrize("end_us", [_NOW.wall_us - 3_600 * SECOND, _NOW.wall_us + 60 * SECOND])
def test_a_span_at_the_edge_of_now_is_taken(kind: str, end_us: int) -> None:
    late = span(startTimeUnixNano=str(end_us * 1_000), endTimeUnixNano=str(end_us * 1_000))
    assert _parse(kind, late).columns["wall_us"] == end_us


def test_an_arrival_after_the_end_is_null_and_said(kind: str) -> None:
    found = _parse(kind, span(startTimeUnixNano=str((ENDED_US + 1) * 1_000)))
    assert found.columns["arrival_wall_us"] is None
    assert len(found.refused) == 1


def test_an_arrival_that_is_not_told_is_null(kind: str) -> None:
    found = _parse(kind, span(startTimeUnixNano="0"))
    assert (found.columns["arrival_wall_us"], found.refused) == (None, ())


def _reasons(*reasons: str) -> Json:
    values = [{"stringValue": reason} for reason in reasons]
    value = {"arrayValue": {"values": values}}
    return {"key": "gen_ai.response.finish_reasons", "value": value}


@pytest.mark.parametrize(
    ("attribute", "finish", "refused"),
    [
        (_reasons("stop"), "stop", 0),
        (_reasons("length", "length"), "length", 0),
        (_reasons("stop", "length"), None, 0),
        (_reasons(), None, 0),
        (text("gen_ai.response.finish_reasons", "abort"), "abort", 0),
        (_reasons("because"), None, 1),
        (integer("gen_ai.response.finish_reasons", "1"), None, 1),
    ],
    ids=["one", "same", "different", "empty", "text", "unknown", "number"],
)
def test_how_it_ended(kind: str, attribute: Json, finish: str | None, refused: int) -> None:
    found = _parse(kind, span([attribute]))
    assert found.columns["finish"] == finish
    assert len(found.refused) == refused


def test_a_failed_span_ended_with_an_error(kind: str) -> None:
    assert _parse(kind, span(status={"code": 2})).columns["finish"] == "error"
    assert _parse(kind, span(status={"code": 1})).columns["finish"] is None


def test_the_model_is_the_answering_one_and_who_sent_it_is_kept(kind: str) -> None:
    extra = [text("gen_ai.request.model", "asked"), text("gen_ai.response.model", "served")]
    sender = [text("service.name", "chat"), text("service.instance.id", "pod-1")]
    found = _parse(kind, span(extra), resource=sender)
    assert found.columns["route"] == "served"
    origin = found.origin
    assert (origin.service, origin.instance, origin.model) == ("chat", "pod-1", "served")


@pytest.mark.parametrize("scope", ["vllm.tracing.otel", "vllm.llm_engine"])
def test_both_scopes_of_vllm_are_taken(kind: str, scope: str) -> None:
    assert len(_read(request(span(), scope=scope), kind).spans) == 1


@pytest.mark.parametrize(
    ("scope", "name"),
    [("vllm.v1.engine.core", "Prepare model"), ("my.app", "llm_request"), ("", "llm_request")],
)
def test_other_spans_are_ignored_and_no_fault(kind: str, scope: str, name: str) -> None:
    batch = _read(request(span(name=name), span(name=name), scope=scope), kind)
    assert (batch.spans, batch.ignored, batch.refused) == ([], 2, 0)


def test_more_spans_than_a_body_may_hold_are_refused(kind: str) -> None:
    empty: list[Json] = [{"name": "x"}] * 50_001
    with pytest.raises(BodyError, match="50000 spans"):
        _read(request(*empty), kind)


@pytest.mark.parametrize("read", [read_json, read_protobuf], ids=["json", "protobuf"])
def test_many_scopes_are_refused(read: Read) -> None:
    scopes = [{"scope": {"name": "x"}}] * 4_097
    body = {"resourceSpans": [{"scopeSpans": scopes}]}
    encoded = as_json(body) if read is read_json else as_protobuf(body)
    with pytest.raises(BodyError, match="more than 4096"):
        read(encoded)


def test_a_long_id_is_cut_and_a_wild_one_is_storable() -> None:
    long = _parse("json", span([text("gen_ai.request.id", "x" * 1_000)]))
    assert long.name == "x" * 512
    wild = _parse("json", span([text("gen_ai.request.id", "a\ud800b")]))
    assert wild.name == "a?b"
