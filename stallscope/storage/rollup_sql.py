"""Coarser rollups as SQL: one definition for what a compaction stores and what a view adds live."""

from __future__ import annotations

from dataclasses import dataclass

from stallscope.columns import Table
from stallscope.schema import TABLES
from stallscope.tables.rollups import ITL_SPANS_S
from stallscope.units import US_PER_SECOND


@dataclass(frozen=True, slots=True)
class Rollup:
    """How one rollup table comes from another table.

    Attributes:
        target: Rollup table.
        source: Table it is made from.
        select: SELECT over a relation named ``source``, in the target's column order.
    """

    target: str
    source: str
    select: str


def _window(seconds: int) -> str:
    """Return the SQL of the begin of the window a row falls in."""
    span = seconds * US_PER_SECOND
    return f"wall_us - wall_us % {span}"


def _itl(name: str, seconds: int) -> Rollup:
    """Return the histogram rollup for windows of so many seconds."""
    return Rollup(
        target=name,
        source="itl_1s",
        select=f"""
SELECT {_window(seconds)} AS wall_us, engine, level, bucket, lower_bucket,
       CAST(sum(observations) AS UINTEGER) AS observations
FROM source GROUP BY ALL ORDER BY wall_us, engine, level, bucket""",
    )


def _minute(table: Table) -> Rollup:
    """Return the per-minute rollup of a signal table."""
    keys = ", ".join(table.key)
    parts = [f"{what}({name})" for name in table.gauges for what in ("min", "avg", "max")]
    parts += [f"CAST(sum({name}) AS BIGINT)" for name in table.sums]
    target = TABLES[f"{table.name}_1m"]
    names = [column.name for column in target.columns[2 + len(table.key) :]]
    selected = ",\n       ".join(
        f"{part} AS {name}" for part, name in zip(parts, names, strict=True)
    )
    return Rollup(
        target=target.name,
        source=table.name,
        select=f"""
SELECT {_window(60)} AS wall_us, {keys}, CAST(count(*) AS UINTEGER) AS samples,
       {selected}
FROM source GROUP BY 1, {keys} ORDER BY {keys}, 1""",
    )


_HISTOGRAM = Rollup(
    target="engine_histogram_1m",
    source="engine_histogram",
    select=f"""
WITH bucket AS (
    SELECT {_window(60)} AS wall_us, engine, family, bounds,
           unnest(counts) AS n, generate_subscripts(counts, 1) AS position
    FROM source
), added AS (
    SELECT wall_us, engine, family, bounds, position, sum(n) AS n FROM bucket GROUP BY ALL
), listed AS (
    SELECT wall_us, engine, family, bounds, list(CAST(n AS UINTEGER) ORDER BY position) AS counts
    FROM added GROUP BY ALL
), total AS (
    SELECT {_window(60)} AS wall_us, engine, family, bounds,
           CAST(sum(observations) AS BIGINT) AS observations, CAST(sum(sum) AS BIGINT) AS total
    FROM source GROUP BY ALL
)
SELECT wall_us, engine, family, observations, total AS sum, bounds, counts
FROM total JOIN listed USING (wall_us, engine, family, bounds)
ORDER BY engine, family, wall_us""",
)


def _all() -> tuple[Rollup, ...]:
    """Return every rollup that is made at compaction."""
    minutes = (_minute(table) for table in TABLES.values() if (table.gauges or table.sums))
    coarse = (_itl(name, seconds) for name, seconds in ITL_SPANS_S.items() if seconds > 1)
    return (*coarse, *minutes, _HISTOGRAM)


ROLLUPS: tuple[Rollup, ...] = _all()


def rollups_from(source: str) -> list[Rollup]:
    """Return the rollups that are made from a table."""
    return [rollup for rollup in ROLLUPS if rollup.source == source]


def rollup_into(target: str) -> Rollup | None:
    """Return how a rollup table is made, or None when it is none or is made at sealing."""
    return next((rollup for rollup in ROLLUPS if rollup.target == target), None)
