"""Rows on their way into the journal: bounded, so that a slow disk costs rows and not memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from stallscope.storage.rows import keep_good_rows, to_batch

_ROW_BYTES = 2_000  # what a row of a wide table takes as a mapping, measured on engine_metrics
_REFUSALS = (KeyError, ValueError, TypeError, OverflowError, pa.ArrowException)


@dataclass(slots=True)
class Refusals:
    """Rows that never reached the journal.

    Attributes:
        dropped: Thrown away because there was no room.
        refused: They did not fit the schema.
        reason: Why the last refused row did not fit.
    """

    dropped: int = 0
    refused: int = 0
    reason: str = ""


@dataclass(slots=True)
class Incoming:
    """Collects rows of any thread until the journal takes them.

    Attributes:
        limit_bytes: Room for rows that wait; newer rows are dropped beyond it.
        refusals: Running counts.
    """

    limit_bytes: int
    refusals: Refusals = field(default_factory=Refusals)
    _rows: dict[str, list[Mapping[str, object]]] = field(default_factory=dict)
    _batches: list[tuple[str, pa.RecordBatch]] = field(default_factory=list)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, table: str, rows: Sequence[Mapping[str, object]] | pa.RecordBatch) -> None:
        """Take rows in, or count them as dropped when there is no room."""
        if isinstance(rows, pa.RecordBatch):
            count, size = rows.num_rows, rows.nbytes
        else:
            count, size = len(rows), len(rows) * _ROW_BYTES
        with self._lock:
            if self._bytes + size > self.limit_bytes:
                self.refusals.dropped += count
                return
            self._bytes += size
            if isinstance(rows, pa.RecordBatch):
                self._batches.append((table, rows))
            else:
                self._rows.setdefault(table, []).extend(rows)

    @property
    def size_bytes(self) -> int:
        """Memory of what waits, about."""
        with self._lock:
            return self._bytes

    def take(self) -> list[tuple[str, pa.RecordBatch]]:
        """Return all that waited as batches of the schema, one per table where possible."""
        with self._lock:
            rows, self._rows = self._rows, {}
            batches, self._batches = self._batches, []
            self._bytes = 0
        taken: list[tuple[str, pa.RecordBatch]] = []
        for table, waiting in (*rows.items(), *batches):
            batch = self._convert(table, waiting)
            if batch is not None and batch.num_rows:
                taken.append((table, batch))
        return taken

    def _convert(
        self, table: str, rows: Sequence[Mapping[str, object]] | pa.RecordBatch
    ) -> pa.RecordBatch | None:
        """Return rows as a batch; rows that do not fit are counted, their neighbours kept."""
        try:
            return to_batch(table, rows)
        except _REFUSALS as error:
            if isinstance(rows, pa.RecordBatch):
                self.refusals.refused += rows.num_rows
                self.refusals.reason = f"{table}: {error}"
                return None
            batch, refused, self.refusals.reason = self._keep(table, rows)
            self.refusals.refused += refused
            return batch

    @staticmethod
    def _keep(
        table: str, rows: Sequence[Mapping[str, object]]
    ) -> tuple[pa.RecordBatch | None, int, str]:
        """Return the good rows of a table, or none for a table that does not exist."""
        try:
            return keep_good_rows(table, rows)
        except KeyError as error:
            return None, len(rows), f"no table {error}"
