"""Sealing: acknowledged batches become segments, in one commit with their per-second rollup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby

import pyarrow as pa

from stallscope.schema import TABLES, arrow_schema
from stallscope.storage.itl_rollup import ITL_SOURCES, itl_per_second
from stallscope.storage.layout import Layout
from stallscope.storage.manifest import Entry, ManifestWriter
from stallscope.storage.pending import Acknowledged
from stallscope.storage.segment import Origin, write_segment


def seal(
    layout: Layout,
    manifest: ManifestWriter,
    writer: str,
    taken: Mapping[str, Sequence[Acknowledged]],
    *,
    sync: bool,
) -> int:
    """Write the segments of acknowledged batches and commit them together.

    Returns:
        Number of rows sealed.

    Raises:
        OSError: The disk refused; nothing counts and the batches are still the caller's.
    """
    entries: list[Entry] = []
    try:
        _write(layout, writer, taken, entries, sync=sync)
        sealed = {name: batches[-1].sequence for name, batches in taken.items()}
        if entries:
            manifest.commit(add=entries, sealed=sealed)
    except BaseException:
        # the next try has more rows and so other names: on a full disk these would eat what is left
        for entry in entries:
            with suppress(OSError):
                (layout.segments / entry.file).unlink()
        raise
    return sum(entry.rows for entry in entries)


def _write(
    layout: Layout,
    writer: str,
    taken: Mapping[str, Sequence[Acknowledged]],
    entries: list[Entry],
    *,
    sync: bool,
) -> None:
    """Write the segments and note each as soon as it stands."""
    for boot_id, tables in _by_boot(taken):
        data = {name: _joined(name, batches) for name, batches in tables.items()}
        ranges = {
            name: (batches[0].sequence, batches[-1].sequence) for name, batches in tables.items()
        }
        _add_itl(data, ranges)
        for name, rows in data.items():
            origin = Origin(writer, *ranges[name], boot_id, level=0)
            entries.append(write_segment(layout.segments, TABLES[name], [rows], origin, sync=sync))


def _by_boot(
    taken: Mapping[str, Sequence[Acknowledged]],
) -> list[tuple[str, dict[str, list[Acknowledged]]]]:
    """Return batches split by boot: a segment's monotonic times must compare."""
    boots: dict[str, dict[str, list[Acknowledged]]] = {}
    for name, batches in taken.items():
        for boot_id, group in groupby(batches, key=lambda batch: batch.boot_id):
            boots.setdefault(boot_id, {}).setdefault(name, []).extend(group)
    return list(boots.items())


def _joined(name: str, batches: Sequence[Acknowledged]) -> pa.Table:
    """Return batches as one table."""
    return pa.Table.from_batches([b.batch for b in batches], schema=arrow_schema(name))


def _add_itl(data: dict[str, pa.Table], ranges: dict[str, tuple[int, int]]) -> None:
    """Add the rows of itl_1s that the other rows call for, under their range of sequences."""
    sources = [name for name in ITL_SOURCES if name in data]
    if not sources:
        return
    rows = itl_per_second({name: data[name] for name in sources})
    if rows.num_rows:
        data["itl_1s"] = rows
        ranges["itl_1s"] = (
            min(ranges[name][0] for name in sources),
            max(ranges[name][1] for name in sources),
        )
