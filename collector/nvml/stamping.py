"""When something was read: the middle between before and after the call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from stallscope.clock import Instant
from stallscope.units import NS_PER_US

Value = TypeVar("Value")


def now() -> Instant:
    """Return both clocks."""
    return Instant(time.time_ns() // NS_PER_US, time.monotonic_ns() // NS_PER_US)


def instant_at(mono_us: int) -> Instant:
    """Return a moment of the near past on both clocks."""
    present = now()
    return Instant(present.wall_us - (present.mono_us - mono_us), mono_us)


def read_stamped(read: Callable[[], Value]) -> tuple[Value, Instant]:
    """Return what a call returned and when.

    Args:
        read: The call; it may raise what it likes.
    """
    before_ns = time.monotonic_ns()
    value = read()
    after_ns = time.monotonic_ns()
    half_ns = (after_ns - before_ns) // 2
    wall_us = (time.time_ns() - half_ns) // NS_PER_US
    return value, Instant(wall_us, (after_ns - half_ns) // NS_PER_US)
