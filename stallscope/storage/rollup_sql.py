"""Coarser rollups as SQL: one definition for what a compaction stores and what a view adds live."""

from __future__ import annotations

from dataclasses import dataclass

from stallscope.columns import Table
from stallscope.schema import TABLES
from stallscope.tables.rollups import ITL_SPANS_S
from stallscope.units import US_PER_SECOND

_LARGEST_U32 = 2**32 - 1
_LARGEST_I64 = 2**63 - 1


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


def _saturated(expression: str, kind: str, largest: int) -> str:
    """Return the SQL of a count that stays at the largest number of its column.

    Only an engine that prints nonsense counts so far, and its page must stop no compaction.
    """
    return f"CAST(least({expression}, {largest}) AS {kind})"


def _itl(name: str, seconds: int) -> Rollup:
    """Return the histogram rollup for windows of so many seconds."""
    return Rollup(
        target=name,
        source="itl_1s",
        select=f"""
SELECT {_window(seconds)} AS wall_us, engine, level, bucket, lower_bucket,
       {_saturated("sum(observations)", "UINTEGER", _LARGEST_U32)} AS observations
FROM source GROUP BY ALL ORDER BY wall_us, engine, level, bucket""",
    )


def _minute(table: Table) -> Rollup:
    """Return the per-minute rollup of a signal table."""
    keys = ", ".join(table.key)
    parts = [f"{what}({name})" for name in table.gauges for what in ("min", "avg", "max")]
    # a counter that runs wild may add up to more than fits; what is unknown is NULL
    parts += [f"TRY_CAST(sum({name}) AS BIGINT)" for name in table.sums]
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


# Buckets carry the number of their list of bounds: with the list itself memory grows with the
# square of its length, and an engine may print thousands of buckets.
_HISTOGRAM = Rollup(
    target="engine_histogram_1m",
    source="engine_histogram",
    select=f"""
WITH shape AS (
    SELECT bounds, row_number() OVER () AS shape FROM (SELECT DISTINCT bounds FROM source)
), scrape AS (
    SELECT {_window(60)} AS wall_us, engine, family, shape, counts, observations, sum
    FROM source JOIN shape USING (bounds)
), bucket AS (
    SELECT wall_us, engine, family, shape,
           unnest(counts) AS n, generate_subscripts(counts, 1) AS position
    FROM scrape
), added AS (
    SELECT wall_us, engine, family, shape, position, sum(n) AS n FROM bucket GROUP BY ALL
), listed AS (
    SELECT wall_us, engine, family, shape,
           list({_saturated("n", "UINTEGER", _LARGEST_U32)} ORDER BY position) AS counts
    FROM added GROUP BY ALL
), total AS (
    SELECT wall_us, engine, family, shape,
           {_saturated("sum(observations)", "BIGINT", _LARGEST_I64)} AS observations,
           TRY_CAST(sum(sum) AS BIGINT) AS total
    FROM scrape GROUP BY ALL
)
SELECT wall_us, engine, family, observations, total AS sum, bounds, counts
FROM total JOIN listed USING (wall_us, engine, family, shape) JOIN shape USING (shape)
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
