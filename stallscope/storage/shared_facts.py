"""Facts that other processes write, as a collector sees them while it runs.

Short-lived commands such as `stallscope calibrate` seal their rows directly, beside the collector
that has the lake open. Their manifest is looked at, and segments are read only when it changed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from stallscope.errors import LakeError
from stallscope.schema import table as table_named
from stallscope.storage.direct import DIRECT_WRITER
from stallscope.storage.follower import ManifestFollower
from stallscope.storage.layout import Layout
from stallscope.storage.rows import upgrade
from stallscope.storage.segment import read_batches

_LOG = logging.getLogger(__name__)
_ROWS = 10_000


class SharedFacts:
    """The rows of one fact table, whoever wrote them; one thread uses it.

    Args:
        layout: The lake.
        table: A fact table.
    """

    def __init__(self, layout: Layout, table: str) -> None:
        self._layout = layout
        self._table = table_named(table)
        self._follower = ManifestFollower(layout)
        self._seen: tuple[int, int, int] | None = None
        self._rows: Sequence[Mapping[str, object]] | None = None

    def rows(self) -> Sequence[Mapping[str, object]]:
        """Return all sealed rows of all writers, oldest first.

        They are read at the first call, and again when a command has sealed something since. What
        cannot be read is logged, and the rows before are returned.
        """
        seen = self._look()
        if self._rows is None or seen != self._seen:
            try:
                self._rows = self._read()
                self._seen = seen
            except (OSError, LakeError) as error:
                _LOG.warning("table %s cannot be read: %s", self._table.name, error)
        return self._rows or ()

    def _look(self) -> tuple[int, int, int] | None:
        """Return what tells one state of the commands' manifest from another."""
        try:
            status = self._layout.manifest(DIRECT_WRITER).stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _read(self) -> list[Mapping[str, object]]:
        rows: list[Mapping[str, object]] = []
        for entry in self._follower.entries():
            if entry.table == self._table.name:
                for batch in read_batches(self._layout.segments, entry, _ROWS):
                    rows += upgrade(self._table, batch, entry.version).to_pylist()
        return sorted(rows, key=lambda row: int(str(row["wall_us"])))
