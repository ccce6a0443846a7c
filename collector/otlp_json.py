"""Spans in OTLP's JSON: the same `Batch` as from protobuf.

64-bit integers come as strings (protobuf's JSON mapping), other numbers may. Bytes such as traceId
are not looked at: senders disagree on hexadecimal and base64.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from collector.otlp_bounds import MOST_GROUPS, BodyError
from collector.otlp_spans import (
    RESOURCE_ATTRIBUTES,
    SPAN_ATTRIBUTES,
    Batch,
    Span,
    SpanError,
    is_engine_scope,
    is_request,
)
from collector.otlp_values import Value

_MOST_BRACKETS = 262_144  # an object takes up to 200 bytes: a body of them stays below 60 MB
_LONGEST_NUMBER = 32
_INT64 = 2**63
_ERROR = (2, "STATUS_CODE_ERROR")

_Object: TypeAlias = Mapping[str, object]


def read_json(body: bytes) -> Batch:
    """Return the spans of an ExportTraceServiceRequest in JSON.

    Raises:
        BodyError: It is no such request, or holds more than a body may.
    """
    if body.count(b"{") + body.count(b"[") > _MOST_BRACKETS:
        raise BodyError(f"more than {_MOST_BRACKETS} objects and lists")
    try:
        document = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        msg = f"no JSON: {type(error).__name__}"  # its message may quote what was sent
        raise BodyError(msg) from error
    batch = Batch()
    for number, (resource, scope) in enumerate(_scopes(document)):
        spans = _items(scope, "spans")
        batch.expect(len(spans))
        if number >= MOST_GROUPS:
            raise BodyError(f"more than {MOST_GROUPS} scopes")
        _add_scope(batch, resource, _text(_member(scope, "scope"), "name"), spans)
    return batch


def _scopes(document: object) -> Iterator[tuple[_Object, _Object]]:
    """Yield every scope with its resource."""
    for group in _items(_object(document), "resourceSpans"):
        resource = _member(_object(group), "resource")
        for scope in _items(_object(group), "scopeSpans"):
            yield resource, _object(scope)


def _add_scope(batch: Batch, resource: _Object, name: str, spans: Sequence[object]) -> None:
    if not is_engine_scope(name):
        batch.ignored += len(spans)
        return
    sender = _attributes(resource, RESOURCE_ATTRIBUTES)
    for span in spans:
        try:
            _add_span(batch, sender, _object(span))
        except (BodyError, SpanError) as error:
            batch.refuse(str(error))


def _add_span(batch: Batch, sender: Mapping[str, Value], span: _Object) -> None:
    if not is_request(_text(span, "name")):
        batch.ignored += 1
        return
    found = Span(
        resource=sender,
        start_ns=_nanoseconds(span, "startTimeUnixNano"),
        end_ns=_nanoseconds(span, "endTimeUnixNano"),
        attributes=_attributes(span, SPAN_ATTRIBUTES),
        failed=_member(span, "status").get("code") in _ERROR,
    )
    batch.spans.append(found)


def _object(value: object) -> _Object:
    if value is None:  # protobuf's JSON mapping: null is the default
        return {}
    if not isinstance(value, dict):
        raise BodyError("a value stands where an object belongs")
    return value


def _member(owner: _Object, name: str) -> _Object:
    return _object(owner.get(name))


def _items(owner: _Object, name: str) -> Sequence[object]:
    value = owner.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BodyError(f"{name} is no list")
    return value


def _text(owner: _Object, name: str) -> str:
    value = owner.get(name)
    return value if isinstance(value, str) else ""


def _attributes(owner: _Object, wanted: frozenset[str]) -> dict[str, Value]:
    """Return the attributes that are wanted; a list of them may hold anything."""
    found: dict[str, Value] = {}
    for item in _items(owner, "attributes"):
        key = item.get("key") if isinstance(item, dict) else None
        if isinstance(item, dict) and isinstance(key, str) and key in wanted:
            found[key] = _value(_member(item, "value"))
    return found


def _value(value: _Object) -> Value:
    """Return an AnyValue; None when it is of another kind or cannot be read."""
    if "stringValue" in value:
        text = value["stringValue"]
        return text if isinstance(text, str) else None
    if "intValue" in value:
        return _integer(value["intValue"])
    if "doubleValue" in value:
        return _number(value["doubleValue"])
    if "arrayValue" in value:
        return _texts(_items(_member(value, "arrayValue"), "values"))
    return None


def _texts(values: Sequence[object]) -> Value:
    texts = tuple(_text(value, "stringValue") for value in values if isinstance(value, dict))
    return texts if len(texts) == len(values) else None


def _integer(value: object) -> int | None:
    """Return a 64-bit integer."""
    if isinstance(value, str) and len(value) <= _LONGEST_NUMBER:
        try:
            value = int(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -_INT64 <= value < _INT64 else None


def _number(value: object) -> float | None:
    """Return a double; protobuf's JSON mapping spells NaN and the infinities as strings."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and len(value) > _LONGEST_NUMBER:
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _nanoseconds(span: _Object, name: str) -> int:
    """Return a time; 0 when it is left out.

    Raises:
        SpanError: It is no whole number of nanoseconds.
    """
    value = span.get(name)
    if value is None:
        return 0
    if isinstance(value, str) and len(value) <= _LONGEST_NUMBER and value.isdecimal():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2 * _INT64:
        return value
    raise SpanError(f"{name} is no whole number")
