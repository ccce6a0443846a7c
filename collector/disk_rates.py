"""What happened between two readings of a disk: gains, gaps, means. Pure.

Widths and wraps: Documentation/admin-guide/iostats.rst and diskstats_show in block/genhd.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from collector.diskstats import (
    ALWAYS_THERE,
    BUSY_MS,
    COMPLETED,
    DISCARD_MERGES,
    DISCARD_MS,
    DISCARD_SECTORS,
    DISCARDS,
    FIELDS,
    FLUSH_MS,
    FLUSHES,
    IN_FLIGHT,
    READ_MERGES,
    READ_MS,
    READ_SECTORS,
    READS,
    WEIGHTED_MS,
    WRITE_MERGES,
    WRITE_MS,
    WRITE_SECTORS,
    WRITES,
    Statistics,
    count_in_flight,
)
from stallscope.units import SECTOR_BYTES, US_PER_MS

_MILLISECONDS = frozenset({READ_MS, WRITE_MS, BUSY_MS, WEIGHTED_MS, DISCARD_MS, FLUSH_MS})
_SECTORS = frozenset({READ_SECTORS, WRITE_SECTORS, DISCARD_SECTORS})
_WRAP = 1 << 32  # millisecond fields are unsigned int on every kernel
_MOST_BUSY = 1.1
_MOST_TIMES = 4096  # no queue is deeper than this many I/Os that wait all the time
_MOST_COUNT = (1 << 32) - 1
_MOST_SECTORS = (1 << 54) - 1  # as bytes these still fit a signed 64-bit integer


class Gap(StrEnum):
    """Why a row has no deltas."""

    FIRST_READ = "first_read"
    NO_TIME = "no_time"
    COUNTER_FELL = "counter_fell"
    IMPLAUSIBLE = "implausible"
    IDENTITY_CHANGED = "identity_changed"
    DISABLED = "disabled"
    GONE = "gone"


def has_moved(statistics: Statistics) -> bool:
    """Return whether anything was ever counted."""
    return any(value for index, value in enumerate(statistics) if index != IN_FLIGHT)


def subtract(before: Statistics, now: Statistics, window_us: int) -> Statistics | Gap:
    """Return what each counter gained; at `IN_FLIGHT` stands its value now.

    A millisecond field that fell wrapped once at 2**32 (munin#1119, telegraf#17408), unless that
    gives an implausible time. Any other counter that fell makes the whole line a gap, never an
    unsigned difference: the device was replaced or its name reused (sysstat#355). A field that the
    line before did not have yet counts from zero, since kernels only append.

    Args:
        before: The reading before.
        now: This reading.
        window_us: Monotonic time between both.
    """
    if window_us <= 0:
        return Gap.NO_TIME
    if _has_fallen(before, now):
        return Gap.COUNTER_FELL
    deltas = tuple(map(_gain, range(FIELDS), before, now))
    if _is_implausible(deltas, before, now, window_us):
        return Gap.IMPLAUSIBLE
    return deltas


def _has_fallen(before: Statistics, now: Statistics) -> bool:
    """Return whether a counter is lower than before and that is no wrap of a 32-bit field."""
    for index, (old, new) in enumerate(zip(before, now, strict=True)):
        if old is None or new is None or new >= old or index == IN_FLIGHT:
            continue
        if index not in _MILLISECONDS or old >= _WRAP:
            return True
    return False


def _gain(index: int, old: int | None, new: int | None) -> int | None:
    """Return what one counter gained, for counters that are known not to have fallen."""
    if new is None:
        return None
    if index == IN_FLIGHT:
        return new
    if old is None:
        return new if index >= ALWAYS_THERE else None
    return new - old if new >= old else new - old + _WRAP


def _is_implausible(
    deltas: Statistics, before: Statistics, now: Statistics, window_us: int
) -> bool:
    """Return whether a gain cannot be.

    Times are judged only where a wrap was assumed: without one a long time is real, since a stuck
    I/O books all of it in the window in which it completes.
    """
    window_ms = window_us / US_PER_MS
    for index, (delta, old, new) in enumerate(zip(deltas, before, now, strict=True)):
        if delta is None or index == IN_FLIGHT:
            continue
        if index not in _MILLISECONDS:
            limit: float = _MOST_SECTORS if index in _SECTORS else _MOST_COUNT
        elif old is not None and new is not None and new < old:
            limit = window_ms * (_MOST_BUSY if index == BUSY_MS else _MOST_TIMES)
        else:
            continue
        if delta > limit:
            return True
    return False


def add_up(parts: Sequence[Statistics]) -> Statistics:
    """Return the gains of several paths as those of one disk.

    Everything is added but the busy time: paths are busy at once, so the busiest stands for all
    and is the least that the disk can have been.
    """
    if len(parts) == 1:
        return parts[0]
    added: list[int | None] = []
    for index, column in enumerate(zip(*parts, strict=True)):
        known = [value for value in column if value is not None]
        combine = max if index == BUSY_MS else sum
        added.append(combine(known) if len(known) == len(column) else None)
    return tuple(added)


def measure(deltas: Statistics, window_us: int) -> dict[str, object]:
    """Return the columns of table block_device that follow from the gains of one window.

    Means are NULL when nothing completed: a long I/O is invisible until it ends, so a queue that
    holds I/O while none completes is marked as a candidate for stuck I/O.
    """
    window_ms = window_us / US_PER_MS
    busy = _divide(deltas[BUSY_MS], window_ms)
    return {
        "window_us": window_us,
        "reads": deltas[READS],
        "read_merges": deltas[READ_MERGES],
        "read_bytes": _bytes(deltas[READ_SECTORS]),
        "read_await_mean_us": _divide(deltas[READ_MS], deltas[READS], US_PER_MS),
        "writes": deltas[WRITES],
        "write_merges": deltas[WRITE_MERGES],
        "write_bytes": _bytes(deltas[WRITE_SECTORS]),
        "write_await_mean_us": _divide(deltas[WRITE_MS], deltas[WRITES], US_PER_MS),
        "discards": deltas[DISCARDS],
        "discard_merges": deltas[DISCARD_MERGES],
        "discard_bytes": _bytes(deltas[DISCARD_SECTORS]),
        "discard_await_mean_us": _divide(deltas[DISCARD_MS], deltas[DISCARDS], US_PER_MS),
        "flushes": deltas[FLUSHES],
        "flush_await_mean_us": _divide(deltas[FLUSH_MS], deltas[FLUSHES], US_PER_MS),
        "queue_mean": _divide(deltas[WEIGHTED_MS], window_ms),
        "busy_ratio": None if busy is None else min(1.0, busy),
        "busy_raw_ratio": busy,
        "io_stuck_candidate": is_stuck(deltas),
    }


def is_stuck(deltas: Statistics) -> bool:
    """Return whether nothing completed although I/O is in flight."""
    return bool(count_in_flight([deltas])) and not any(deltas[index] for index in COMPLETED)


def _bytes(sectors: int | None) -> int | None:
    """Return sectors as bytes."""
    return None if sectors is None else sectors * SECTOR_BYTES


def _divide(gain: int | None, by: float | None, scale: int = 1) -> float | None:
    """Return the quotient times ``scale``; None when a side is absent or the divisor is zero."""
    return None if gain is None or not by else gain * scale / by
