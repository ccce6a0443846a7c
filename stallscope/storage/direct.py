"""Rows of short-lived commands, such as a note, are sealed at once without a journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stallscope.clock import read_boot_id
from stallscope.errors import LakeError
from stallscope.storage.layout import open_lake
from stallscope.storage.locks import held
from stallscope.storage.manifest import ManifestWriter
from stallscope.storage.pending import Acknowledged
from stallscope.storage.rows import to_batch
from stallscope.storage.sealing import seal

DIRECT_WRITER = "direct"


def seal_directly(
    lake: Path,
    rows: Mapping[str, Sequence[Mapping[str, object]]],
    *,
    proc: Path = Path("/proc"),
    sync: bool = True,
) -> None:
    """Seal rows into an existing lake in one commit; several processes may do so at once.

    Args:
        lake: Folder of the lake.
        rows: Rows by table.
        proc: Root of the proc file system, for the boot id.
        sync: fsync before the rows count.

    Raises:
        LakeError: There is no lake, or it cannot be written.
        KeyError: A table or column is not in the schema.
        pa.ArrowException: A value does not fit its column.
    """
    layout = open_lake(lake)
    boot_id = read_boot_id(proc)
    batches = {table: to_batch(table, of_table) for table, of_table in rows.items() if of_table}
    try:
        with held(layout.lock(DIRECT_WRITER)):
            manifest = ManifestWriter(layout.manifest(DIRECT_WRITER), sync=sync)
            try:
                sequence = 1 + max(manifest.contents.sealed.values(), default=0)
                taken = {
                    table: [Acknowledged(sequence, batch, boot_id)]
                    for table, batch in batches.items()
                }
                seal(layout, manifest, DIRECT_WRITER, taken, sync=sync)
            finally:
                manifest.close()
    except OSError as error:
        msg = f"cannot write the lake {layout.root}: {error.strerror}"
        raise LakeError(msg, "Free space or give write rights, then try again") from error
