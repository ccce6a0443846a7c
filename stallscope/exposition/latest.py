"""The latest row of every entity, for as long as it counts as fresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from stallscope.columns import Table

Row: TypeAlias = Mapping[str, object]

STALE_INTERVALS = 3
"""A value is shown for three intervals of its source, then its series ends: no flat lines."""
_SHORTEST_LIFE_US = 1_000_000  # one late tick of a 10 Hz source must not punch a hole into a scrape


def lifetime_us(interval_us: int) -> int:
    """Return how long a row counts as fresh when its source is read every ``interval_us``."""
    return max(STALE_INTERVALS * interval_us, _SHORTEST_LIFE_US)


@dataclass(frozen=True, slots=True)
class _Kept:
    row: Row
    fresh_until_us: int


class LatestRows:
    """The latest row per entity of one table.

    Args:
        table: The table; its key names the entity.
    """

    def __init__(self, table: Table) -> None:
        self._key = table.key
        self._kept: dict[tuple[object, ...], _Kept] = {}

    def keep(self, rows: Sequence[Row], interval_us: int) -> None:
        """Take rows that were just read.

        Args:
            rows: In time order; each has ``mono_us``.
            interval_us: Pace of their source.
        """
        life_us = lifetime_us(interval_us)
        for row in rows:
            taken_us = row["mono_us"]
            if isinstance(taken_us, int):
                entity = tuple(row.get(name) for name in self._key)
                self._kept.pop(entity, None)  # the latest stands last
                self._kept[entity] = _Kept(row, taken_us + life_us)

    def fresh(self, now_us: int) -> list[Row]:
        """Return the rows that are still fresh, the latest last, and forget the others.

        Args:
            now_us: Monotonic time.
        """
        self._kept = {
            entity: kept for entity, kept in self._kept.items() if kept.fresh_until_us >= now_us
        }
        return [kept.row for kept in self._kept.values()]
