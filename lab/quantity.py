"""Figures as people read them, and the ranks of a list."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stallscope.units import US_PER_MS, US_PER_SECOND

_STEPS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def rank(values: Sequence[float], q: float) -> float:
    """Return the observation of rank ``ceil(q * n)``; NaN for none.

    Args:
        values: In any order.
        q: 0 to 1.
    """
    if not values:
        return math.nan
    return sorted(values)[max(1, math.ceil(q * len(values))) - 1]


def show_us(us: float) -> str:
    """Return a duration in microseconds with the unit that suits it."""
    if math.isnan(us):
        return "none"
    if abs(us) >= US_PER_SECOND:
        return f"{us / US_PER_SECOND:.2f} s"
    return f"{us / US_PER_MS:.1f} ms" if abs(us) >= US_PER_MS else f"{us:.0f} us"


def show_bytes(size: float) -> str:
    """Return a size with the unit that suits it, decimal."""
    for step, unit in _STEPS:
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size:.0f} B"
