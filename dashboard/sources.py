"""What the sources say of themselves: state, reason, pace, cost and their last day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from dashboard.data import rows
from stallscope.units import US_PER_SECOND

TABLES = ("source_health",)
DAY_TABLES = ("source_health", "source_health_1m")
DAY_US = 86_400 * US_PER_SECOND
SLOTS = 96
"""Quarters of an hour in the strip of the last day."""
_MINUTE_US = 60 * US_PER_SECOND
GOOD = ("working", "partial", "late")


@dataclass(frozen=True, slots=True)
class SourceNow:
    """A source as its newest health rows describe it.

    Attributes:
        name: Source.
        state: State in the words of source_health.
        reason: What exactly; empty when all is well.
        last_rows_us: Time of the newest health row with rows in it, None when there was none today.
        last_seen_us: Time of its newest health row.
        pace_hz: Polls per second over its last minute.
        cpu_ratio: Share of one core it took over its last minute, None when not measured.
        rejects: Input lines refused in its last minute.
        failures: Polls that failed in its last minute.
        dropped: Rows thrown away in its last minute.
        strip: Last day in quarters of an hour, the oldest first: ``rows``, ``trouble``, ``looked``
            (it ran and found nothing) or ``off``.
    """

    name: str
    state: str
    reason: str
    last_rows_us: int | None
    last_seen_us: int
    pace_hz: float
    cpu_ratio: float | None
    rejects: int
    failures: int
    dropped: int
    strip: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Whether it delivers."""
        return self.state in GOOD


def read_sources(connection: duckdb.DuckDBPyConnection, now_us: int) -> list[SourceNow]:
    """Return every source of the last day, those that need attention first.

    Args:
        connection: Sees source_health and source_health_1m of the last day.
        now_us: The present.
    """
    strips = _strips(connection, now_us)
    last_rows = _last_rows(connection, now_us)
    found = [
        _source(row, strips.get(row["source"], ()), last_rows.get(row["source"]))
        for row in _newest(connection, now_us)
    ]
    return sorted(found, key=lambda source: (_rank(source), source.name))


def _newest(connection: duckdb.DuckDBPyConnection, now_us: int) -> list[dict[str, Any]]:
    """Return the newest health row of each source and the sums of the minute that ends with it."""
    return rows(
        connection,
        "WITH day AS (SELECT * FROM source_health WHERE wall_us >= $since), "
        "seen AS (SELECT source, max(wall_us) AS seen_us FROM day GROUP BY source), "
        "minute AS (SELECT day.*, seen_us FROM day JOIN seen USING (source) "
        "  WHERE day.wall_us > seen_us - $minute) "
        "SELECT source, any_value(seen_us) AS seen_us, max_by(state, wall_us) AS state, "
        "max_by(coalesce(reason, ''), wall_us) AS reason, sum(reads) AS reads, "
        "sum(cpu_us) AS cpu_us, sum(rejects) AS rejects, sum(failures) AS failures, "
        "sum(dropped) AS dropped, seen_us - min(wall_us) + $second AS covered_us "
        "FROM minute GROUP BY source, seen_us",
        {"since": now_us - DAY_US, "minute": _MINUTE_US, "second": US_PER_SECOND},
    )


def _last_rows(connection: duckdb.DuckDBPyConnection, now_us: int) -> dict[str, int]:
    """Return when each source last delivered a row."""
    found = connection.execute(
        "SELECT source, max(wall_us) FROM source_health WHERE rows > 0 AND wall_us >= ? "
        "GROUP BY source",
        [now_us - DAY_US],
    ).fetchall()
    return dict(found)


def _source(row: Mapping[str, Any], strip: tuple[str, ...], last_rows_us: int | None) -> SourceNow:
    """Return one source."""
    covered_s = row["covered_us"] / US_PER_SECOND
    cpu = row["cpu_us"]
    return SourceNow(
        name=row["source"],
        state=row["state"],
        reason=row["reason"],
        last_rows_us=last_rows_us,
        last_seen_us=row["seen_us"],
        pace_hz=float(row["reads"]) / covered_s,
        cpu_ratio=None if cpu is None else float(cpu) / row["covered_us"],
        rejects=int(row["rejects"]),
        failures=int(row["failures"]),
        dropped=int(row["dropped"]),
        strip=strip or ("off",) * SLOTS,
    )


def _strips(connection: duckdb.DuckDBPyConnection, now_us: int) -> dict[str, tuple[str, ...]]:
    """Return the last day of each source in quarters of an hour."""
    slot_us = DAY_US // SLOTS
    end_us = now_us - now_us % slot_us + slot_us
    found = connection.execute(
        "SELECT source, (wall_us - $start) // $slot AS slot, sum(rows) AS rows, "
        "sum(failures) + sum(dropped) AS trouble FROM source_health_1m "
        "WHERE wall_us >= $start AND wall_us < $stop GROUP BY ALL",
        {"start": end_us - DAY_US, "stop": end_us, "slot": slot_us},
    ).fetchall()
    strips: dict[str, list[str]] = {}
    for source, slot, delivered, trouble in found:
        strip = strips.setdefault(source, ["off"] * SLOTS)
        strip[slot] = "trouble" if trouble else "rows" if delivered else "looked"
    return {source: tuple(strip) for source, strip in strips.items()}


def _rank(source: SourceNow) -> int:
    """Return how urgently a source needs a look: broken, then partly, then absent, then fine."""
    order = (
        ("failed", "hung", "gone"),
        ("restricted", "partial", "late"),
        ("not_found",),
        ("unsupported", "not_applicable", "disabled"),
        ("working",),
    )
    return next((rank for rank, states in enumerate(order) if source.state in states), 0)
