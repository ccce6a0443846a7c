"""The writer of a lake: rows in, acknowledged by the journal, sealed, merged, dropped when old.

Three threads share the work so that none waits for another's disk: one journals every 100 ms, one
seals every second, one merges and drops. None of them ever ends by an exception: what goes wrong is
counted, said in `Writer.health`, and tried again.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from stallscope.clock import Clock, read_boot_id
from stallscope.columns import Cadence
from stallscope.errors import LakeError
from stallscope.schema import TABLES
from stallscope.storage.housekeeping import Housekeeping
from stallscope.storage.incoming import Incoming
from stallscope.storage.journal import free_sequence
from stallscope.storage.journalling import Journalling
from stallscope.storage.layout import Layout, create_lake
from stallscope.storage.locks import take_writer_lock
from stallscope.storage.pending import Pending
from stallscope.storage.recovery import Recovered, open_manifest, replay
from stallscope.storage.retention import Limits
from stallscope.storage.sealing import seal
from stallscope.storage.segment import read_batches
from stallscope.storage.trouble import Trouble

_LOG = logging.getLogger(__name__)
_LIVE = tuple(name for name, table in TABLES.items() if table.cadence is Cadence.LIVE)


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """How a writer works.

    Attributes:
        sync: fsync segments and manifest before they count.
        journal_sync: fdatasync each journal write.
        journal_s: Longest wait of a row before it is acknowledged.
        live_seal_s: Interval of sealing what live readers watch.
        slow_seal_s: Interval of sealing everything and of starting a new journal part.
        housekeeping_s: Interval of merging, dropping and checking; 0 leaves it to others.
        grace_s: How long a merged file stays for readers that still hold it.
        incoming_bytes: Memory for rows that wait for the journal.
        pending_bytes: Memory for rows that wait for their seal.
        limits: What is kept.
        host: Host name for a new lake.
        proc: Root of the proc file system, for the boot id.
    """

    sync: bool = True
    journal_sync: bool = False
    journal_s: float = 0.1
    live_seal_s: float = 1.0
    slow_seal_s: float = 10.0
    housekeeping_s: float = 5.0
    grace_s: float = 900.0
    incoming_bytes: int = 32 << 20
    pending_bytes: int = 64 << 20
    limits: Limits = field(default_factory=Limits)
    host: str = ""
    proc: Path = Path("/proc")


@dataclass(frozen=True, slots=True)
class WriterHealth:
    """What the writer says about itself.

    Attributes:
        state: ``working`` or ``failed``.
        reason: What is wrong and since when it is tried again; empty when all is well.
        dropped_rows: Rows thrown away for want of room, since the start.
        refused_rows: Rows that did not fit the schema, since the start.
        pending_rows: Acknowledged rows not sealed yet.
        journal_bytes: Size of the journal part being written.
        free_bytes: Free space on the lake's file system; None when it cannot be told.
        quarantined: Files set aside since the start.
        sealed_mono_us: When the last seal succeeded.
        seal_us: How long it took.
    """

    state: str
    reason: str
    dropped_rows: int
    refused_rows: int
    pending_rows: int
    journal_bytes: int
    free_bytes: int | None
    quarantined: int
    sealed_mono_us: int
    seal_us: int


class Writer:
    """The only process that writes under one name; its methods may be called by any thread."""

    def __init__(self, layout: Layout, name: str, clock: Clock, options: WriterOptions) -> None:
        """Use `Writer.open`."""
        self.layout = layout
        self.name = name
        self._clock = clock
        self._options = options
        self._lock = take_writer_lock(layout.lock(name), name)
        layout.journal(name).mkdir(exist_ok=True)
        self.manifest = open_manifest(layout, name, clock, sync=options.sync)
        self._pending = Pending()
        self.recovered: Recovered = replay(
            layout, name, self.manifest.contents, self._pending, clock
        )
        self._incoming = Incoming(options.incoming_bytes)
        self._journalling = Journalling(
            folder=layout.journal(name),
            boot_id=read_boot_id(options.proc),
            next_sequence=free_sequence(layout.journal(name), self.recovered.last_sequence + 1),
            sync=options.journal_sync,
            pending_limit_bytes=options.pending_bytes,
            incoming=self._incoming,
            pending=self._pending,
        )
        self._old_parts = list(self.recovered.parts)
        self._trouble = Trouble()
        self._sealing = threading.Lock()
        self._reserving = threading.Lock()
        self._sealed_mono_us = self._full_mono_us = clock.now().mono_us
        self._seal_us = 0
        self._housekeeping = Housekeeping(
            layout, self.manifest, name, clock, options.limits, options.grace_s, sync=options.sync
        )
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    @classmethod
    def open(
        cls,
        lake: Path,
        name: str,
        *,
        clock: Clock,
        options: WriterOptions | None = None,
    ) -> Writer:
        """Open a lake for writing, replay the journal and start working.

        Args:
            lake: Folder of the lake; made when absent.
            name: Writer name, for example ``collect``.
            clock: Where the time comes from.
            options: How to work.

        Raises:
            LakeError: Another process writes under this name, or the lake cannot be used.
        """
        options = options or WriterOptions()
        try:
            writer = cls(create_lake(lake, options.host), name, clock, options)
        except OSError as error:
            msg = f"cannot write the lake {lake}: {error.strerror}"
            raise LakeError(msg, "Free space or give write rights, then start again") from error
        writer._start()
        return writer

    def _start(self) -> None:
        """Seal what was recovered and start the threads."""
        if self.recovered.rows:
            _LOG.info("recovered %d rows from the journal", self.recovered.rows)
        self._try("sealing", self._seal_all)
        rounds: list[tuple[str, float, Callable[[], object]]] = [
            ("journal", self._options.journal_s, self._journalling.flush),
            ("sealing", self._options.live_seal_s, self._seal_round),
            ("housekeeping", self._options.housekeeping_s, self._housekeeping.round),
        ]
        for what, every_s, work in rounds:
            if every_s > 0:
                thread = threading.Thread(
                    target=self._repeat,
                    args=(what, every_s, work),
                    name=f"lake-{what}",
                    daemon=True,
                )
                self._threads.append(thread)
                thread.start()

    def append(self, table: str, rows: Sequence[Mapping[str, object]] | pa.RecordBatch) -> None:
        """Hand rows in. They are acknowledged within 100 ms; rows that do not fit are counted."""
        self._incoming.add(table, rows)

    def flush(self) -> int:
        """Acknowledge all rows handed in so far, now.

        Returns:
            The last acknowledged sequence.

        Raises:
            LakeError: The disk refused; the rows wait and are tried again.
        """
        try:
            return self._journalling.flush()
        except OSError as error:
            msg = f"cannot write the journal of {self.layout.root}: {error.strerror}"
            raise LakeError(msg, "Free space on the lake's file system") from error

    def reserve(self, kind: str, count: int = 1) -> int:
        """Return the first of so many ids that were never given out and never will be again.

        Raises:
            LakeError: The reservation could not be written.
        """
        with self._reserving:
            first = self.manifest.contents.reserved.get(kind, 1)
            try:
                self.manifest.commit(reserved={kind: first + count})
            except OSError as error:
                msg = f"cannot reserve an id in {self.layout.root}: {error.strerror}"
                raise LakeError(msg, "Free space on the lake's file system") from error
            return first

    def facts(self, table: str) -> list[dict[str, object]]:
        """Return all sealed rows of a fact table, oldest first.

        Raises:
            SegmentError: A segment of it is damaged.
        """
        rows: list[dict[str, object]] = []
        for entry in self.manifest.entries():
            if entry.table == table:
                for batch in read_batches(self.layout.segments, entry, 10_000):
                    rows += batch.to_pylist()
        return rows

    def seal(self) -> None:
        """Acknowledge and seal everything now; what goes wrong is in `health`."""
        self._try("sealing", self._seal_all)

    def health(self) -> WriterHealth:
        """Return what the writer has to say about itself."""
        refusals = self._incoming.refusals
        return WriterHealth(
            state="failed" if self._trouble.current() else "working",
            reason=self._trouble.current() or self._housekeeping.finding or refusals.reason,
            dropped_rows=refusals.dropped,
            refused_rows=refusals.refused,
            pending_rows=self._pending.rows,
            journal_bytes=self._journalling.size_bytes,
            free_bytes=_free_bytes(self.layout.root),
            quarantined=self._housekeeping.quarantined + self.recovered.damaged_records,
            sealed_mono_us=self._sealed_mono_us,
            seal_us=self._seal_us,
        )

    def close(self) -> None:
        """Stop the threads, seal everything and give the lake back; a second call does nothing."""
        if self._stop.is_set():
            return
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self.seal()
        self.manifest.close()
        self._lock.release()

    def _repeat(self, what: str, every_s: float, work: Callable[[], object]) -> None:
        """Do a piece of work every so often until the writer is closed."""
        while not self._stop.wait(every_s):
            self._try(what, work)

    def _try(self, what: str, work: Callable[[], object]) -> None:
        """Do a piece of work; remember what went wrong instead of ending the thread."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a writer thread that ends loses every later row
            if self._trouble.raised(what, error):
                _LOG.error("lake: %s", self._trouble.current())
        else:
            if self._trouble.cleared(what):
                _LOG.info("lake %s works again", what)

    def _seal_round(self) -> None:
        """Seal live tables, and every so often all of them."""
        now = self._clock.now().mono_us
        if now - self._full_mono_us >= self._options.slow_seal_s * 1_000_000:
            self._seal_all()
        else:
            self._seal(_LIVE)

    def _seal_all(self) -> None:
        """Seal every table; then the journal parts before this moment are not needed."""
        self._full_mono_us = self._clock.now().mono_us
        try:
            part = self._journalling.rotate()
            if part is not None:
                self._old_parts.append(part)
        finally:  # on a full disk a seal may still fit, and what is sealed frees its journal
            self._seal(None)
        while self._old_parts:
            self._old_parts[0].unlink(missing_ok=True)
            del self._old_parts[0]

    def _seal(self, tables: Sequence[str] | None) -> None:
        """Seal what is pending; it stays pending when the disk refuses."""
        with self._sealing:
            begin = self._clock.now().mono_us
            taken = self._pending.take(tables)
            try:
                seal(self.layout, self.manifest, self.name, taken, sync=self._options.sync)
            except BaseException:
                self._pending.put_back(taken)
                raise
            self._sealed_mono_us = self._clock.now().mono_us
            self._seal_us = self._sealed_mono_us - begin


def _free_bytes(folder: Path) -> int | None:
    """Return the free space of a file system, or None when it cannot be told."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize
