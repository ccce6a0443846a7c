"""Compaction: many small segments become few, a second, a minute, an hour and a day at a time.

One commit adds the merged segment and takes its parts out, so every reader sees each row once. The
commit that leaves level 0 also adds the rollups of those very rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import duckdb
import pyarrow as pa

from stallscope.columns import Retention, Table
from stallscope.schema import TABLES, arrow_schema
from stallscope.storage.layout import Layout
from stallscope.storage.manifest import Entry, ManifestWriter
from stallscope.storage.rollup_sql import Rollup, rollups_from
from stallscope.storage.rows import upgrade
from stallscope.storage.segment import Origin, check_segment, read_batches, write_segment
from stallscope.storage.views import relation
from stallscope.units import US_PER_SECOND

_MINUTE_US = 60 * US_PER_SECOND
SPANS_US = (_MINUTE_US, 60 * _MINUTE_US, 24 * 60 * _MINUTE_US)
"""Length of the windows that segments of level 0, 1 and 2 are merged into."""
_LARGEST_BYTES = 256 << 20
_GROUP_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Job:
    """Neighbouring segments of one table that belong to one window.

    Attributes:
        table: The table.
        parts: The segments in order of sequence.
    """

    table: Table
    parts: tuple[Entry, ...]

    @property
    def level(self) -> int:
        """Level of the parts."""
        return self.parts[0].level

    @property
    def origin_range(self) -> tuple[int, int]:
        """First and last journal sequence of the parts."""
        return self.parts[0].first, self.parts[-1].last


def find_jobs(entries: Sequence[Entry], now_us: int) -> list[Job]:
    """Return what can be merged now.

    A window is closed when a later segment lies in another window, or when it is over by the
    wall clock. Grouping goes by sequence, so a stepped clock can close a window early, never mix
    the order of rows.

    Args:
        entries: All segments of one writer.
        now_us: Wall-clock time.
    """
    jobs: list[Job] = []
    for level, span in enumerate(SPANS_US):
        for name, of_table in groupby(
            sorted((e for e in entries if e.level == level), key=lambda e: (e.table, e.first)),
            key=lambda entry: entry.table,
        ):
            if name in TABLES and _goes_further(TABLES[name], level):
                jobs += _closed_windows(TABLES[name], list(of_table), span, now_us)
    return jobs


def _goes_further(table: Table, level: int) -> bool:
    """Return whether a table is merged beyond a level: raw rows are dropped by the hour."""
    return level < (2 if table.retention is Retention.RAW else 3)


def _closed_windows(table: Table, entries: list[Entry], span: int, now_us: int) -> list[Job]:
    """Return the closed windows of one table at one level."""
    groups = [
        (window, tuple(parts))
        for window, parts in groupby(entries, key=lambda e: ((e.lo or 0) // span, e.boot_id))
    ]
    closed = groups[:-1]
    if groups and (groups[-1][0][0] + 1) * span + 2 * US_PER_SECOND < now_us:
        closed = groups
    return [Job(table, parts) for _, parts in closed]


def compact(
    layout: Layout, manifest: ManifestWriter, writer: str, job: Job, *, sync: bool
) -> list[str]:
    """Merge the parts of a job, with their rollups, in one commit.

    Returns:
        Files that do not count any more.

    Raises:
        SegmentError: A part is damaged; nothing happened.
        OSError: The disk refused; nothing happened.
    """
    for part in job.parts:  # DuckDB and Arrow read altered pages without a word
        check_segment(layout.segments, part)
    first, last = job.origin_range
    origin = Origin(writer, first, last, job.parts[0].boot_id, job.level + 1)
    add = _rollups(layout, job, origin, sync=sync) if job.level == 0 else []
    if _stays_as_it_is(job):
        add += [replace(part, level=part.level + 1) for part in job.parts]
        manifest.commit(add=add)
        return []
    add.append(write_segment(layout.segments, job.table, _merged(layout, job), origin, sync=sync))
    remove = [part.file for part in job.parts]
    manifest.commit(remove=remove, add=add)
    return remove


def _stays_as_it_is(job: Job) -> bool:
    """Return whether merging would gain nothing."""
    return len(job.parts) == 1 or sum(part.bytes for part in job.parts) > _LARGEST_BYTES


def _merged(layout: Layout, job: Job) -> Iterator[pa.Table]:
    """Yield row groups of all parts, in time order or sorted by key inside each group."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for part in job.parts:
        for batch in read_batches(layout.segments, part, _GROUP_ROWS):
            waiting.append(upgrade(job.table, batch, part.version))
            rows += batch.num_rows
            if rows >= _GROUP_ROWS:
                yield _ordered(job.table, waiting)
                waiting, rows = [], 0
    if waiting:
        yield _ordered(job.table, waiting)


def _ordered(table: Table, batches: list[pa.RecordBatch]) -> pa.Table:
    """Return batches as one table in the order that compresses best."""
    data = pa.Table.from_batches(batches, schema=arrow_schema(table.name))
    keys = [name for name in (*table.key, table.time) if name]
    if table.time_ordered or not keys:
        return data
    return data.sort_by([(key, "ascending") for key in keys])


def _rollups(layout: Layout, job: Job, origin: Origin, *, sync: bool) -> list[Entry]:
    """Write the rollup segments of the parts."""
    return [
        write_segment(
            layout.segments, TABLES[rollup.target], [rows], replace(origin, boot_id=""), sync=sync
        )
        for rollup in rollups_from(job.table.name)
        if (rows := _rolled_up(layout, job, rollup)).num_rows
    ]


def _rolled_up(layout: Layout, job: Job, rollup: Rollup) -> pa.Table:
    """Return the rollup rows of the parts."""
    source = relation(job.table, job.parts, layout.segments)
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": "192MB",
        "threads": 1,
        "autoinstall_known_extensions": False,
    }
    with duckdb.connect(":memory:", config=config) as connection:
        query = f"WITH source AS ({source}) SELECT * FROM ({rollup.select})"
        rows = connection.sql(query).to_arrow_table()
    return rows.cast(arrow_schema(rollup.target))
