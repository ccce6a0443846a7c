"""A manifest that was damaged while no writer ran is rebuilt from the segments themselves.

Names carry the range of journal sequences, so among segments that overlap the widest is the merged
one and counts; Parquet metadata carries the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stallscope.schema import TABLES
from stallscope.storage.layout import Layout
from stallscope.storage.manifest import Contents, Entry
from stallscope.storage.rollup_sql import rollup_into, rollups_from
from stallscope.storage.segment import digest_file
from stallscope.tables.rollups import ITL_SPANS_S

_NAME = re.compile(r"(?P<writer>.+)-(?P<first>\d{16})-(?P<last>\d{16})\.parquet")
_ID_KINDS = ("engine", "device", "request")


def rebuild_contents(layout: Layout, writer: str) -> Contents:
    """Return what a writer's manifest must have said, going by its segments.

    Segments that cannot be read are left out; they stay where they are.
    """
    contents = Contents()
    for table in TABLES:
        entries = [
            entry for path in _files(layout, table, writer) if (entry := _entry(layout, path))
        ]
        for entry in _widest(entries):
            contents.entries[entry.file] = entry
            contents.sealed[table] = max(contents.sealed.get(table, 0), entry.last)
    _reserve_used_ids(layout, contents)
    return contents


def files_beyond(layout: Layout, writer: str, contents: Contents) -> list[tuple[str, int]]:
    """Return table and last sequence of a writer's segments that hold more than was ever sealed.

    Rollups are left out: their sequences are those of other tables.
    """
    named = (
        (table, _NAME.fullmatch(path.name))
        for table in TABLES
        if rollup_into(table) is None and table not in ITL_SPANS_S
        for path in _files(layout, table, writer)
    )
    return [
        (table, int(name["last"]))
        for table, name in named
        if name and int(name["first"]) > contents.sealed.get(table, 0)
    ]


def _files(layout: Layout, table: str, writer: str) -> list[Path]:
    """Return the segment files of one table and writer."""
    found = (layout.segments / table).glob("*.parquet")
    return [p for p in found if (name := _NAME.fullmatch(p.name)) and name["writer"] == writer]


def _entry(layout: Layout, path: Path) -> Entry | None:
    """Return the manifest entry of a file, or None when it is no readable segment."""
    name = _NAME.fullmatch(path.name)
    try:
        metadata = pq.read_metadata(path)
        ours = {key.decode(): value.decode() for key, value in (metadata.metadata or {}).items()}
        version = int(ours["stallscope.schema"])
        level = int(ours["stallscope.level"])
        times = pq.read_table(path, columns=[TABLES[path.parent.name].time])
        digest = digest_file(path)
    except (OSError, KeyError, ValueError, pa.ArrowException):
        return None
    if name is None:
        return None
    span = pc.min_max(times.column(0)).as_py() if times.num_rows else {"min": None, "max": None}
    first, last = int(name["first"]), int(name["last"])
    return Entry(
        file=f"{path.parent.name}/{path.name}",
        table=path.parent.name,
        rows=metadata.num_rows,
        bytes=path.stat().st_size,
        digest=digest,
        lo=span["min"],
        hi=span["max"],
        version=version,
        boot_id=ours.get("stallscope.boot", ""),
        first=first,
        last=last,
        level=max(level, int(_is_rolled_up(layout, path))),
    )


def _is_rolled_up(layout: Layout, path: Path) -> bool:
    """Return whether rollups were made of a segment: it left level 0 without being rewritten."""
    return any(
        (layout.segments / rollup.target / path.name).exists()
        for rollup in rollups_from(path.parent.name)
    )


def _widest(entries: Iterable[Entry]) -> list[Entry]:
    """Return entries that do not overlap, merged ones before their parts."""
    chosen: list[Entry] = []
    for entry in sorted(entries, key=lambda e: (e.first, -e.last)):
        if not chosen or entry.first > chosen[-1].last:
            chosen.append(entry)
    return chosen


def _reserve_used_ids(layout: Layout, contents: Contents) -> None:
    """Reserve every id that occurs, so that none is given out twice."""
    for entry in contents.entries.values():
        kinds = [c.name for c in TABLES[entry.table].columns if c.name in _ID_KINDS]
        if not kinds:
            continue
        rows = pq.read_table(layout.segments / entry.file, columns=kinds)
        for kind in kinds:
            highest = pc.max(rows.column(kind)).as_py()
            if isinstance(highest, int):
                contents.reserved[kind] = max(contents.reserved.get(kind, 1), highest + 1)
