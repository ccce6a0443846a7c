"""From incoming rows to acknowledged batches: one write() a round, tried until it succeeds."""

from __future__ import annotations

import errno
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from stallscope.storage.incoming import Incoming
from stallscope.storage.journal import Part
from stallscope.storage.pending import Acknowledged, Pending


@dataclass(slots=True)
class Journalling:
    """Owns the part being written; safe for threads.

    Attributes:
        folder: Journal folder of the writer.
        boot_id: The running boot.
        next_sequence: Sequence of the next batch.
        sync: fdatasync after each write; it matters for power loss, not for a killed process.
        pending_limit_bytes: Beyond this nothing more is taken from ``incoming``.
    """

    folder: Path
    boot_id: str
    next_sequence: int
    sync: bool
    pending_limit_bytes: int
    incoming: Incoming
    pending: Pending
    _part: Part | None = None
    _unwritten: list[tuple[int, str, pa.RecordBatch]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def flush(self) -> int:
        """Acknowledge all rows that came in so far.

        Returns:
            The last acknowledged sequence.

        Raises:
            OSError: The disk refused, or so much waits for its seal that nothing more is taken; the
                rows wait for the next round.
        """
        with self._lock:
            last = self._flush()
        if self.incoming.size_bytes and self.pending.size_bytes >= self.pending_limit_bytes:
            raise OSError(errno.ENOBUFS, "new rows wait until older ones can be sealed")
        return last

    def _flush(self) -> int:
        """Write what waits; the lock is held."""
        if not self._unwritten and self.pending.size_bytes < self.pending_limit_bytes:
            for table, batch in self.incoming.take():
                self._unwritten.append((self.next_sequence, table, batch))
                self.next_sequence += 1
        if self._unwritten:
            self._open_part().append(self._unwritten, sync=self.sync)
            for sequence, table, batch in self._unwritten:
                self.pending.add(table, [Acknowledged(sequence, batch, self.boot_id)])
            self._unwritten = []
        return self.next_sequence - 1

    def _open_part(self) -> Part:
        """Return the part being written, made when there is none."""
        if self._part is None:
            first = self._unwritten[0][0] if self._unwritten else self.next_sequence
            self._part = Part(self.folder, first, self.boot_id)
        return self._part

    def rotate(self) -> Path | None:
        """End the current part and return it: once all that is pending is sealed it may go.

        Raises:
            OSError: Waiting rows could not be written; the part goes on.
        """
        with self._lock:
            self._flush()
            if self._part is None:
                return None
            path = self._part.path
            self._part.close()
            self._part = None
            return path

    @property
    def size_bytes(self) -> int:
        """Size of the part being written."""
        part = self._part
        return part.size_bytes if part else 0
