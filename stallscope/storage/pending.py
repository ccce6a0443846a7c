"""Acknowledged rows between journal and segment."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """One batch that stands in the journal.

    Attributes:
        sequence: Its journal sequence.
        batch: The rows, in today's schema.
        boot_id: Boot in which its monotonic times count.
    """

    sequence: int
    batch: pa.RecordBatch
    boot_id: str


@dataclass(slots=True)
class Pending:
    """Batches per table that wait for their seal; they are never dropped."""

    _tables: dict[str, list[Acknowledged]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, table: str, batches: Iterable[Acknowledged]) -> None:
        """Take batches in behind those that wait."""
        with self._lock:
            self._tables.setdefault(table, []).extend(batches)

    def take(self, wanted: Iterable[str] | None = None) -> dict[str, list[Acknowledged]]:
        """Return and forget the batches of some tables, or of all."""
        with self._lock:
            names = (
                list(self._tables) if wanted is None else [n for n in wanted if n in self._tables]
            )
            return {name: self._tables.pop(name) for name in names}

    def put_back(self, taken: dict[str, list[Acknowledged]]) -> None:
        """Put batches back before those that came since."""
        with self._lock:
            for name, batches in taken.items():
                self._tables[name] = batches + self._tables.get(name, [])

    @property
    def size_bytes(self) -> int:
        """Memory of all batches."""
        with self._lock:
            return sum(a.batch.nbytes for batches in self._tables.values() for a in batches)

    @property
    def rows(self) -> int:
        """Rows of all batches."""
        with self._lock:
            return sum(a.batch.num_rows for batches in self._tables.values() for a in batches)
