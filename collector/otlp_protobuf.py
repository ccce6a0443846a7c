"""Spans in OTLP's protobuf encoding, decoded with the published classes.

Not in one go: a body of 4 MiB that holds nothing but empty spans takes 370 MB as a tree of messages
(measured, protobuf 7.36 with upb). So the outer levels are opened as lists of undecoded bytes,
which the wire format allows since bytes and messages look the same in it, and then each span is
decoded by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2

from collector.otlp_bounds import LONGEST_MESSAGE, MOST_GROUPS, BodyError
from collector.otlp_spans import (
    RESOURCE_ATTRIBUTES,
    SPAN_ATTRIBUTES,
    Batch,
    Span,
    is_engine_scope,
    is_request,
)
from collector.otlp_values import Value

_Field = descriptor_pb2.FieldDescriptorProto


class _Level(Protocol):
    """One level, opened: fields 1 and 2 of ExportTraceServiceRequest, ResourceSpans, ScopeSpans.

    Attributes:
        first: resource_spans, resource or scope.
        second: nothing, scope_spans or spans.
    """

    first: Sequence[bytes]
    second: Sequence[bytes]


class _LevelClass(Protocol):
    def FromString(self, data: bytes, /) -> _Level: ...  # noqa: N802 - protobuf's name


def _level_class() -> _LevelClass:
    file = descriptor_pb2.FileDescriptorProto(name="level.proto", syntax="proto3")
    message = file.message_type.add(name="Level")
    for number, name in ((1, "first"), (2, "second")):
        message.field.add(
            name=name, number=number, type=_Field.TYPE_BYTES, label=_Field.LABEL_REPEATED
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("Level"))
    return cast("_LevelClass", made)


_LEVEL = _level_class()


def read_protobuf(body: bytes) -> Batch:
    """Return the spans of an ExportTraceServiceRequest.

    Raises:
        BodyError: It is no such request, or holds more than a body may.
    """
    batch = Batch()
    try:
        groups = _LEVEL.FromString(body).first
        _check_count(len(groups), MOST_GROUPS, "resources")
        opened = [_LEVEL.FromString(group) for group in groups]
        _check_count(sum(len(level.second) for level in opened), MOST_GROUPS, "scopes")
        for resource_spans in opened:
            _add_resource(batch, resource_spans)
    except DecodeError as error:
        raise BodyError("no ExportTraceServiceRequest in protobuf") from error
    return batch


def _add_resource(batch: Batch, resource_spans: _Level) -> None:
    resource = Resource.FromString(_joined(resource_spans.first, "resource"))
    sender = _attributes(resource.attributes, RESOURCE_ATTRIBUTES)
    for scope_spans in map(_LEVEL.FromString, resource_spans.second):
        spans = scope_spans.second
        batch.expect(len(spans))
        scope = InstrumentationScope.FromString(_joined(scope_spans.first, "scope"))
        if not is_engine_scope(scope.name):
            batch.ignored += len(spans)
            continue
        for span in spans:
            _add_span(batch, sender, span)


def _add_span(batch: Batch, sender: Mapping[str, Value], encoded: bytes) -> None:
    if len(encoded) > LONGEST_MESSAGE:
        batch.refuse(f"a span of {len(encoded)} bytes, more than {LONGEST_MESSAGE}")
        return
    try:
        span = trace_pb2.Span.FromString(encoded)
    except DecodeError:
        batch.refuse("a span that is no protobuf")
        return
    if not is_request(span.name):
        batch.ignored += 1
        return
    found = Span(
        resource=sender,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes, SPAN_ATTRIBUTES),
        failed=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
    )
    batch.spans.append(found)


def _joined(parts: Sequence[bytes], what: str) -> bytes:
    """Return a message that came in parts: protobuf merges them, which is to join their bytes."""
    whole = b"".join(parts)
    if len(whole) > LONGEST_MESSAGE:
        raise BodyError(f"a {what} of {len(whole)} bytes, more than {LONGEST_MESSAGE}")
    return whole


def _check_count(count: int, most: int, what: str) -> None:
    if count > most:
        raise BodyError(f"{count} {what}, more than {most}")


def _attributes(attributes: Iterable[KeyValue], wanted: frozenset[str]) -> dict[str, Value]:
    return {one.key: _value(one.value) for one in attributes if one.key in wanted}


def _value(value: AnyValue) -> Value:
    """Return an AnyValue; None when it is of a kind that no wanted attribute has."""
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "array_value":
            items = value.array_value.values
            texts = tuple(item.string_value for item in items if item.HasField("string_value"))
            return texts if len(texts) == len(items) else None
        case _:
            return None
