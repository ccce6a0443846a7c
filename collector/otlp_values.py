"""Values of attributes, held against what their columns can mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from stallscope.units import NS_PER_US, US_PER_SECOND

Value: TypeAlias = str | int | float | tuple[str, ...] | None
"""An attribute's value; None when it is of a kind that none here has. Integers fit 64 bits."""

_FINISHES = frozenset({"stop", "length", "abort", "error", "repetition"})
_LONGEST_TEXT = 512
_LONGEST_S = 30 * 86_400
_LARGEST_U32 = 2**32 - 1


class Values:
    """Reads attributes; what makes no sense is None and noted.

    Args:
        attributes: By name. One that is not there is None too, but nothing to note.

    Attributes:
        refused: What made no sense, for people.
    """

    def __init__(self, attributes: Mapping[str, Value]) -> None:
        self._attributes = attributes
        self.refused: list[str] = []

    def text(self, name: str) -> str:
        """Return a text that can be stored, or an empty one."""
        value = self._attributes.get(name)
        if not isinstance(value, str):
            return ""
        return value[:_LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8")

    def duration_us(self, name: str) -> int | None:
        """Return seconds as microseconds.

        An engine that never came to a step leaves its time at 0 and subtracts all the same, so a
        negative duration means that there is none.
        """
        value = self._attributes.get(name)
        if name not in self._attributes:
            return None
        if not isinstance(value, int | float) or not 0 <= value <= _LONGEST_S:  # NaN fails too
            self._refuse(name, value)
            return None
        return round(value * US_PER_SECOND)

    def count(self, name: str) -> int | None:
        """Return a number of tokens."""
        value = self._attributes.get(name)
        if name not in self._attributes:
            return None
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if not isinstance(value, int | float) or not whole or not 0 <= value <= _LARGEST_U32:
            self._refuse(name, value)
            return None
        return int(value)

    def arrival_us(self, start_ns: int, end_us: int) -> int | None:
        """Return when the request arrived."""
        if start_ns == 0:
            return None
        start_us = start_ns // NS_PER_US
        if not end_us - _LONGEST_S * US_PER_SECOND <= start_us <= end_us:
            self._refuse("startTimeUnixNano", start_ns)
            return None
        return start_us

    def finish(self, name: str, *, failed: bool) -> str | None:
        """Return how the request ended; choices that ended differently have no one answer."""
        value = self._attributes.get(name, ())
        reasons = (value,) if isinstance(value, str) else value
        if not isinstance(reasons, tuple) or not _FINISHES.issuperset(reasons):
            self._refuse(name, value)
            return None
        if not reasons:
            return "error" if failed else None
        return reasons[0] if len(set(reasons)) == 1 else None

    def _refuse(self, name: str, value: object) -> None:
        self.refused.append(f"{name} = {_shown(value)}")


def _shown(value: object) -> str:
    """Return a refused value for people, bounded; a text may be anything and is not shown."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int | float):
        return f"{value:.6g}"
    return "not a number" if value is None else f"a {type(value).__name__}"
