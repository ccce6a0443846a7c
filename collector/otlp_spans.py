"""Spans of vLLM: what of them is looked at, and the request that one tells of.

A span of any encoding becomes a `Span` that holds only the attributes named here, so prompts and
answers (gen_ai.prompt, gen_ai.completion, gen_ai.input.messages ...) are never even copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.otlp_bounds import MOST_SPANS, BodyError
from collector.otlp_values import Value, Values
from stallscope.clock import Instant
from stallscope.units import NS_PER_US, US_PER_SECOND

REQUEST_ID = "gen_ai.request.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
MODELS = ("gen_ai.response.model", "gen_ai.request.model")
# vLLM vllm/tracing/utils.py SpanAttributes; durations are seconds.
DURATIONS: Mapping[str, str] = {
    "gen_ai.latency.time_to_first_token": "ttft_us",
    "gen_ai.latency.time_in_queue": "queue_us",
    "gen_ai.latency.time_in_model_prefill": "prefill_us",
    "gen_ai.latency.time_in_model_decode": "decode_us",
    "gen_ai.latency.time_in_model_inference": "inference_us",
    "gen_ai.latency.e2e": "e2e_us",
}
COUNTS: Mapping[str, str] = {
    "gen_ai.usage.prompt_tokens": "prompt_tokens",
    "gen_ai.usage.completion_tokens": "output_tokens",
}
SPAN_ATTRIBUTES = frozenset({REQUEST_ID, FINISH_REASONS, *MODELS, *DURATIONS, *COUNTS})
"""Attributes of a span that are read; all others are passed over unseen."""

SERVICE = "service.name"
INSTANCE = "service.instance.id"
RESOURCE_ATTRIBUTES = frozenset({SERVICE, INSTANCE})
"""Attributes of a resource that are read."""

_SPAN_NAME = "llm_request"
_SCOPES = "vllm."  # vllm.tracing.otel (0.32); vllm.llm_engine in older versions
_OLDEST_US = 3_600 * US_PER_SECOND  # an exporter that is cut off tries again for minutes, not days
_NEWEST_US = 60 * US_PER_SECOND  # clocks of two machines may differ


class SpanError(ValueError):
    """A span cannot become a row; the message says why."""


@dataclass(frozen=True, slots=True)
class Span:
    """One span in any encoding.

    Attributes:
        resource: Attributes of `RESOURCE_ATTRIBUTES` that it came with.
        start_ns: UTC nanoseconds since 1970; 0 when it has none.
        end_ns: The same.
        attributes: Attributes of `SPAN_ATTRIBUTES` that it has.
        failed: Its status is an error.
    """

    resource: Mapping[str, Value]
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    failed: bool


@dataclass(slots=True)
class Batch:
    """What one body held.

    Attributes:
        spans: Spans of requests.
        ignored: Other spans; that is no fault.
        refused: Spans that cannot be read.
        why: Why the first of them cannot.
        expected: Spans of all kinds, known before they are looked at.
    """

    spans: list[Span] = field(default_factory=list)
    ignored: int = 0
    refused: int = 0
    why: str = ""
    expected: int = 0

    def expect(self, count: int) -> None:
        """Note that so many spans more are to be looked at.

        Raises:
            BodyError: That is more than a body may hold.
        """
        self.expected += count
        if self.expected > MOST_SPANS:
            raise BodyError(f"more than {MOST_SPANS} spans")

    def refuse(self, why: str) -> None:
        """Count a span that cannot be read."""
        self.refused += 1
        self.why = self.why or why


@dataclass(frozen=True, slots=True)
class Origin:
    """Who sent a span, as far as it says; empty where it does not.

    Attributes:
        service: service.name.
        instance: service.instance.id.
        model: Model that the span names.
    """

    service: str
    instance: str
    model: str


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """A finished request.

    Attributes:
        name: The engine's request id.
        origin: Who sent it.
        columns: Columns of table request, without engine and request id.
        refused: Values that were left out, each with its attribute.
    """

    name: str
    origin: Origin
    columns: Mapping[str, object]
    refused: tuple[str, ...]


def is_engine_scope(name: str) -> bool:
    """Return whether spans of requests may stand in an instrumentation scope."""
    return name.startswith(_SCOPES)


def is_request(name: str) -> bool:
    """Return whether a span of an engine's scope is a request; others tell of its start-up."""
    return name == _SPAN_NAME


def parse_request(span: Span, now: Instant) -> TracedRequest:
    """Return the request that a span tells of.

    Args:
        span: The span.
        now: When it came.

    Raises:
        SpanError: It has no request id, or did not end about now.
    """
    values = Values(span.attributes)
    name = values.text(REQUEST_ID)
    if not name:
        raise SpanError(f"a span without {REQUEST_ID}")
    end_us = _end_us(span, now)
    model = next(filter(None, map(values.text, MODELS)), "")
    columns: dict[str, object] = {
        "wall_us": end_us,
        "mono_us": now.mono_us - (now.wall_us - end_us),
        "arrival_wall_us": values.arrival_us(span.start_ns, end_us),
        "route": model or None,
        "finish": values.finish(FINISH_REASONS, failed=span.failed),
        "level": "trace",
        **{column: values.duration_us(name) for name, column in DURATIONS.items()},
        **{column: values.count(name) for name, column in COUNTS.items()},
    }
    columns["tpot_us"] = _mean_gap_us(columns["decode_us"], columns["output_tokens"])
    sender = Values(span.resource)
    origin = Origin(sender.text(SERVICE), sender.text(INSTANCE), model)
    return TracedRequest(name, origin, columns, tuple(values.refused))


def _end_us(span: Span, now: Instant) -> int:
    """Return when a span ended. Rows are filed by time, so a wild one must not get in."""
    end_us = span.end_ns // NS_PER_US
    if end_us <= 0:
        raise SpanError("a span without an end time")
    age_us = now.wall_us - end_us
    if age_us > _OLDEST_US:
        raise SpanError(f"a span that ended {age_us // US_PER_SECOND} s ago")
    if age_us < -_NEWEST_US:
        raise SpanError(f"a span that ends {-age_us // US_PER_SECOND} s in the future")
    return end_us


def _mean_gap_us(decode_us: object, tokens: object) -> float | None:
    """Return the mean time per output token after the first, as vLLM does (v1/metrics/stats.py)."""
    if isinstance(decode_us, int) and isinstance(tokens, int) and tokens > 1:
        return decode_us / (tokens - 1)
    return None
