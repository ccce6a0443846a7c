"""What a writer finds when it starts: journal parts of a process that did not stop in order."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from stallscope.clock import Clock
from stallscope.errors import LakeError
from stallscope.schema import TABLES
from stallscope.storage.journal import parts, read_part
from stallscope.storage.layout import Layout
from stallscope.storage.manifest import (
    Contents,
    ManifestWriter,
    read_manifest,
    write_manifest,
)
from stallscope.storage.pending import Acknowledged, Pending
from stallscope.storage.quarantine import set_aside_file, show_file
from stallscope.storage.rebuild import files_beyond, rebuild_contents
from stallscope.storage.rows import upgrade

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Recovered:
    """What the journal gave back.

    Attributes:
        rows: Acknowledged rows that were not sealed yet; they wait in ``Pending`` now.
        damaged_records: Whole records whose checksum differs.
        last_sequence: Highest sequence seen anywhere.
        parts: Parts that may be deleted once the rows are sealed.
    """

    rows: int = 0
    damaged_records: int = 0
    last_sequence: int = 0
    parts: list[Path] = field(default_factory=list)


def open_manifest(layout: Layout, writer: str, clock: Clock, *, sync: bool) -> ManifestWriter:
    """Open a writer's manifest; one that is damaged is set aside and rebuilt from the segments.

    Raises:
        OSError: It cannot be read or written.
    """
    path = layout.manifest(writer)
    damage = _damage_of(layout, writer)
    if damage:
        _LOG.error("%s; it is rebuilt from the segments", damage)
        contents = rebuild_contents(layout, writer)
        set_aside_file(layout, path, f"{damage}; rebuilt from the segments", clock)
        write_manifest(path, contents)
    return ManifestWriter(path, sync=sync)


def _damage_of(layout: Layout, writer: str) -> str:
    """Return what is wrong with a writer's manifest, or an empty string."""
    path = layout.manifest(writer)
    try:
        contents = read_manifest(path)[0] if path.exists() else Contents()
    except LakeError as error:
        return error.message
    beyond = files_beyond(layout, writer, contents)
    if not beyond:
        return ""
    # A process killed between a segment's name and its commit leaves such a file too, but then
    # the journal still has its rows.
    held = {
        (record.table, record.sequence)
        for part in parts(layout.journal(writer))
        for record in read_part(part)[0]
    }
    lost = [file for file in beyond if file not in held]
    return f"{path} lacks {len(lost)} segments that were sealed" if lost else ""


def replay(
    layout: Layout, writer: str, contents: Contents, pending: Pending, clock: Clock
) -> Recovered:
    """Put acknowledged, unsealed rows back into the queue for sealing.

    Args:
        layout: The lake.
        writer: Writer whose journal is read.
        contents: Its manifest: sequences up to ``sealed`` stand in segments already.
        pending: Where the rows go.
        clock: For the reason of a damaged part.

    Raises:
        LakeError: A part cannot be read at all.
    """
    recovered = Recovered(
        last_sequence=max(
            [0, *contents.sealed.values(), *(entry.last for entry in contents.entries.values())]
        )
    )
    for path in parts(layout.journal(writer)):
        damaged = _replay_part(path, contents, pending, recovered)
        if damaged:
            recovered.damaged_records += damaged
            reason = f"{damaged} record(s) with a wrong checksum; the others were recovered"
            show_file(layout, path, reason, clock)
        recovered.parts.append(path)
    return recovered


def _replay_part(path: Path, contents: Contents, pending: Pending, recovered: Recovered) -> int:
    """Replay one part and return its number of damaged records."""
    try:
        records, damaged = read_part(path)
    except OSError as error:
        msg = f"cannot read the journal {path}: {error.strerror}"
        raise LakeError(msg, "Give the user of the collector read rights on it") from error
    for record in records:
        recovered.last_sequence = max(recovered.last_sequence, record.sequence)
        if record.sequence <= contents.sealed.get(record.table, 0) or record.table not in TABLES:
            continue
        batch = upgrade(TABLES[record.table], record.batch, record.version)
        pending.add(record.table, [Acknowledged(record.sequence, batch, record.boot_id)])
        recovered.rows += batch.num_rows
    return damaged
