"""JSON for programs: what JSON cannot say becomes what it can, and never a lie."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from pathlib import Path


def json_text(value: object) -> str:
    """Return a value as indented JSON with a newline at the end."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n"


def plain(value: object) -> object:
    """Return a value as JSON has it.

    NaN and infinity have no JSON and become null. Times without a zone are UTC in a lake and say
    so. Bytes become hexadecimal text.
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float | Decimal):
        return _number(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    return _text(value)


def _number(value: float | Decimal) -> float | int | None:
    if not math.isfinite(value):
        return None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def _text(value: object) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat() + ("Z" if value.tzinfo is None else "")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Path):
        return str(value)
    return str(value)
