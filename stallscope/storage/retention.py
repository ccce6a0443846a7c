"""Retention: whole segments are dropped, by age and, for raw rows, by bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stallscope.columns import Retention
from stallscope.schema import TABLES
from stallscope.storage.manifest import Entry
from stallscope.units import US_PER_SECOND

_HOUR_US = 3_600 * US_PER_SECOND
_DAY_US = 24 * _HOUR_US


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept.

    Attributes:
        raw_hours: Age of raw rows.
        raw_bytes: Size of all raw segments together.
        rollup_days: Age of rollups.
    """

    raw_hours: int = 24
    raw_bytes: int = 10_000_000_000
    rollup_days: int = 30


def expired(entries: Sequence[Entry], limits: Limits, now_us: int) -> list[Entry]:
    """Return the segments to drop, oldest first.

    Args:
        entries: All segments.
        limits: What is kept.
        now_us: Wall-clock time from a source that does not step: one wrong clock must not drop all.
    """
    cutoffs = {
        Retention.RAW: now_us - limits.raw_hours * _HOUR_US,
        Retention.ROLLUP: now_us - limits.rollup_days * _DAY_US,
    }
    old = [entry for entry in entries if _is_older(entry, cutoffs)]
    kept_raw = [e for e in entries if _retention(e) is Retention.RAW and e not in old]
    return sorted(old, key=_age) + _over(kept_raw, limits.raw_bytes)


def _retention(entry: Entry) -> Retention:
    """Return how long rows of an entry's table are kept; unknown tables are kept."""
    table = TABLES.get(entry.table)
    return table.retention if table else Retention.KEEP


def _is_older(entry: Entry, cutoffs: dict[Retention, int]) -> bool:
    """Return whether the youngest row of a segment is past its cutoff."""
    cutoff = cutoffs.get(_retention(entry))
    return cutoff is not None and entry.hi is not None and entry.hi < cutoff


def _age(entry: Entry) -> int:
    """Return the sort key that puts the oldest first."""
    return entry.hi or 0


def _over(entries: list[Entry], limit: int) -> list[Entry]:
    """Return the oldest segments that must go for the rest to fit, never the unmerged ones."""
    excess = sum(entry.bytes for entry in entries) - limit
    dropped = []
    for entry in sorted(entries, key=_age):
        if excess <= 0:
            break
        if entry.level > 0:
            dropped.append(entry)
            excess -= entry.bytes
    return dropped
