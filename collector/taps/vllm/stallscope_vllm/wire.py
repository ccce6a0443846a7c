"""One datagram: a JSON header, then packed columns, little endian.

The collector on the other side shares no code with this file; the format is a contract of its own
(version 1). Missing integers are their type's maximum, missing floats NaN.
"""

from __future__ import annotations

import json
import math
import struct
import sys
from array import array
from collections.abc import Sequence
from typing import Any

STEPS, GAPS, REQUESTS = 1, 2, 3
VERSION = 1
MOST_BYTES = 128 * 1024

_PREFIX = struct.Struct("<4sBBHI")
_MAGIC = b"SSTP"
_ALIGNMENT = 8
_LARGEST = 1e12  # seconds since 1970 pass; infinity, NaN and integers beyond any float do not

MISSING: dict[str, Any] = {
    "B": 0xFF,
    "I": 0xFFFF_FFFF,
    "q": 0x7FFF_FFFF_FFFF_FFFF,
    "f": math.nan,
}

COLUMNS: dict[int, Sequence[tuple[str, str]]] = {
    STEPS: (
        ("engine", "B"),
        ("main", "B"),
        ("wall_us", "q"),
        ("engine_mono_us", "q"),
        ("step_us", "I"),
        ("itl_us", "I"),
        ("outputs", "I"),
        ("generation_tokens", "I"),
        ("prefill_tokens", "I"),
        ("prefill_requests", "I"),
        ("running", "I"),
        ("waiting", "I"),
        ("preempted", "I"),
        ("kv_usage_ratio", "f"),
        ("prefix_queries", "I"),
        ("prefix_hits", "I"),
        ("external_queries", "I"),
        ("external_hits", "I"),
        ("load_bytes", "q"),
        ("load_time_us", "I"),
        ("store_bytes", "q"),
        ("store_time_us", "I"),
        ("load_jobs", "I"),
        ("store_jobs", "I"),
        ("finished", "I"),
        ("spec_drafts", "I"),
        ("spec_accepted_tokens", "I"),
    ),
    GAPS: (
        ("request", "I"),
        ("chunk_index", "I"),
        ("mono_us", "q"),
        ("itl_us", "I"),
        ("tokens", "B"),
        ("body_bytes", "I"),
    ),
    REQUESTS: (),
}
"""Kind -> its columns as (name, code of Python's array module)."""

_COLUMNS_TEXT = {
    kind: json.dumps(columns, separators=(",", ":")) for kind, columns in COLUMNS.items()
}


def whole(value: object, code: str = "I") -> int:
    """Return a count as it goes into a column of that code; anything else is missing."""
    most: int = MISSING[code]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < most:
        return int(value)
    return most


def microseconds(seconds: object, code: str = "I") -> int:
    """Return a duration given in seconds; negative, endless or no number at all is missing."""
    if isinstance(seconds, (int, float)) and 0 <= seconds < _LARGEST:
        return whole(round(seconds * 1e6), code)
    most: int = MISSING[code]
    return most


def ratio(value: object) -> float:
    """Return a finite, non-negative number; anything else is missing."""
    if isinstance(value, (int, float)) and 0 <= value < _LARGEST:
        return float(value)
    return math.nan


def known(value: int, code: str = "I") -> int | None:
    """Return a column's value for JSON, where missing is null."""
    return None if value == MISSING[code] else value


def pack(kind: int, header: dict[str, Any], rows: Sequence[Sequence[Any]]) -> bytes:
    """Return the datagram.

    Args:
        kind: STEPS, GAPS or REQUESTS.
        header: Not empty, and without ``columns``: that is added here.
        rows: Values in the order of ``COLUMNS[kind]``, each fitting its code.
    """
    values_text = json.dumps(header, separators=(",", ":"))[:-1]
    text = f'{values_text},"columns":{_COLUMNS_TEXT[kind]}}}'.encode()
    text += b" " * (-(_PREFIX.size + len(text)) % _ALIGNMENT)
    parts = [_PREFIX.pack(_MAGIC, VERSION, kind, 0, len(text)), text]
    for (_, code), values in zip(COLUMNS[kind], zip(*rows)):
        parts.append(_pack_column(code, values))
    return b"".join(parts)


def _pack_column(code: str, values: Sequence[Any]) -> bytes:
    column = array(code, values)
    if sys.byteorder == "big":
        column.byteswap()
    packed = column.tobytes()
    return packed + bytes(-len(packed) % _ALIGNMENT)
