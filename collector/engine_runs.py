"""Telling one run of an engine from the next, and what counts from where.

A counter that falls shows a restart, but one that does not fall shows nothing: engines have come
back with exactly the old totals (23345 then 23345). So runs are told apart by when the process
started and when its metrics were born; where an engine exposes neither (several API servers, the
Rust front end, most other engines) its identity is unknown, and that is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from collector.engine_series import Child
from stallscope.units import US_PER_SECOND

_TOLERANCE_US = 3 * US_PER_SECOND // 2
"""Start times that differ by less are one: some clients derive them anew from a drifting clock, and
no engine loads a model in that time."""


@dataclass(frozen=True, slots=True)
class Run:
    """What tells one run of an engine from others.

    Attributes:
        process_start_us: When its process started, wall clock; None where the page does not say.
        births: When its labelled metrics were born, wall clock.
    """

    process_start_us: int | None
    births: Mapping[Child, int]

    @property
    def start_us(self) -> int | None:
        """When the run began, as far as it is known."""
        if self.process_start_us is not None:
            return self.process_start_us
        return min(self.births.values(), default=None)


class Continuity(StrEnum):
    """How a page relates to the one before."""

    FIRST = "first"
    SAME = "same"
    UNKNOWN = "unknown"
    RESTARTED = "restarted"
    OTHER = "other"
    """Another process answers, and it began before the window: its totals say nothing about it."""


def compare(before: Run, now: Run, since_us: int) -> Continuity:
    """Return whether two pages are of one run.

    Args:
        before: The run of the page before.
        now: The run of this page.
        since_us: When the page before was taken, wall clock.
    """
    old, new = before.process_start_us, now.process_start_us
    if old is not None and new is not None:
        return Continuity.SAME if _is_same(old, new) else _changed(new, since_us)
    both = [child for child in now.births if child in before.births]
    if not both:
        return Continuity.UNKNOWN
    reborn = [
        now.births[child] for child in both if not _is_same(before.births[child], now.births[child])
    ]
    # a client may drop and recreate a few metrics; a restart renews all of them
    return _changed(min(reborn), since_us) if 2 * len(reborn) > len(both) else Continuity.SAME


@dataclass(frozen=True, slots=True)
class Bases:
    """Says for each labelled metric from where its growth counts.

    Attributes:
        continuity: How this page relates to the one before.
        before: The run of the page before.
        now: The run of this page.
        since_us: Begin of the window, wall clock; None when nothing is known about the time before.
        whole_before: The page before was complete, so what is missing on it was not there.
    """

    continuity: Continuity
    before: Run | None
    now: Run
    since_us: int | None
    whole_before: bool

    def from_zero(self, child: Child, *, seen_before: bool) -> bool | None:
        """Return whether growth counts from zero (True), from the total before (False).

        Returns:
            None when neither is known: the total may have grown before the window.
        """
        if self.continuity is Continuity.RESTARTED:
            return True
        if self.continuity is Continuity.OTHER:
            return True if self._is_born(child) else None
        if seen_before:
            return self._is_reborn(child)
        return True if self._is_born(child) or self._must_be_new() else None

    def _is_born(self, child: Child) -> bool:
        """Return whether a metric, or its process, is younger than the window."""
        birth = self.now.births.get(child, self.now.process_start_us)
        return birth is not None and self.since_us is not None and _is_in(birth, self.since_us)

    def _is_reborn(self, child: Child) -> bool:
        old = self.before.births.get(child) if self.before is not None else None
        new = self.now.births.get(child)
        return old is not None and new is not None and not _is_same(old, new)

    def _must_be_new(self) -> bool:
        """Return whether a metric that the page before lacked can only have come since."""
        return self.continuity is Continuity.SAME and self.whole_before


def has_fallen(before: Mapping[Child, int], now: Mapping[Child, int]) -> bool:
    """Return whether at least half of the counters that had counted anything fell.

    Args:
        before: Totals of the page before, by labelled metric.
        now: Totals of this page.
    """
    counted = [child for child, total in before.items() if total and child in now]
    fallen = [child for child in counted if now[child] < before[child]]
    return bool(fallen) and 2 * len(fallen) >= len(counted)


def _changed(start_us: int, since_us: int) -> Continuity:
    return Continuity.RESTARTED if _is_in(start_us, since_us) else Continuity.OTHER


def _is_in(start_us: int, since_us: int) -> bool:
    return start_us >= since_us - _TOLERANCE_US


def _is_same(one_us: int, other_us: int) -> bool:
    return abs(one_us - other_us) <= _TOLERANCE_US
