"""Rollups: derived in the very commit that seals or compacts their rows."""

from __future__ import annotations

from collections.abc import Iterable

from stallscope.columns import (
    ENGINE,
    Cadence,
    Column,
    Kind,
    Retention,
    Role,
    Table,
    fixed,
    gauge,
)

ITL_SPANS_S = {"itl_1s": 1, "itl_10s": 10, "itl_60s": 60}


def _itl(name: str, seconds: int) -> Table:
    """Return the histogram table of inter-token latency for windows of so many seconds."""
    return Table(
        name=name,
        role=Role.ROLLUP,
        meaning=f"Histogram of inter-token latency per engine and {seconds} s. Rows of the same "
        "window and bucket add up.",
        columns=(
            fixed("wall_us", Kind.I64, "us", "Begin of the window, UTC."),
            ENGINE,
            fixed("level", Kind.TEXT, "-", "scrape (from the engine's own buckets), step or gap."),
            fixed(
                "bucket",
                Kind.I16,
                "-",
                "Observations are at most 1.02^bucket us; -1 is 0 us, 32767 is +Inf.",
            ),
            fixed(
                "lower_bucket",
                Kind.I16,
                "-",
                "They are more than 1.02^lower_bucket us; bucket - 1 unless level is scrape; -1 is "
                "0 us.",
            ),
            fixed("observations", Kind.U32, "count", "How many."),
        ),
        key=("engine", "level"),
        cadence=Cadence.LIVE,
        retention=Retention.RAW if seconds == 1 else Retention.ROLLUP,
        time_ordered=True,
    )


def minute_table(table: Table) -> Table:
    """Return the per-minute rollup of a signal table."""
    gauges = (
        Column(f"{name}_{what}", Kind.F64, table.column(name).unit, f"{word} of {name}.")
        for name in table.gauges
        for what, word in (("min", "Smallest"), ("avg", "Mean"), ("max", "Largest"))
    )
    sums = (
        gauge(name, Kind.I64, table.column(name).unit, f"Sum of {name}.") for name in table.sums
    )
    return Table(
        name=f"{table.name}_1m",
        role=Role.ROLLUP,
        meaning=f"{table.name} per minute. A minute that was compacted in two parts has two rows: "
        "weigh means by samples.",
        columns=(
            fixed("wall_us", Kind.I64, "us", "Begin of the minute, UTC."),
            *(table.column(name) for name in table.key),
            fixed("samples", Kind.U32, "count", "Rows it is made of."),
            *gauges,
            *sums,
        ),
        key=table.key,
        retention=Retention.ROLLUP,
    )


ENGINE_HISTOGRAM_1M = Table(
    name="engine_histogram_1m",
    role=Role.ROLLUP,
    meaning="engine_histogram added up per minute.",
    columns=(
        fixed("wall_us", Kind.I64, "us", "Begin of the minute, UTC."),
        ENGINE,
        fixed("family", Kind.TEXT, "-", "What was observed."),
        fixed("observations", Kind.I64, "count", "Observations in the minute."),
        gauge("sum", Kind.I64, "family", "Their sum, in the family's unit."),
        fixed("bounds", Kind.I64_LIST, "family", "Inclusive upper bounds, ascending."),
        fixed("counts", Kind.U32_LIST, "count", "Observations per bucket, last is +Inf."),
    ),
    key=("engine", "family"),
    retention=Retention.ROLLUP,
)


def rollup_tables(signals: Iterable[Table]) -> tuple[Table, ...]:
    """Return every rollup table that the given signal tables call for."""
    return (
        *(_itl(name, seconds) for name, seconds in ITL_SPANS_S.items()),
        *(minute_table(table) for table in signals if table.gauges or table.sums),
        ENGINE_HISTOGRAM_1M,
    )
