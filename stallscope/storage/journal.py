"""The journal: rows are acknowledged once they stand here, and survive a kill -9.

A part is a file of records. A record is a header (length, CRC-32, sequence, kind), a table name and
an Arrow IPC message: the schema at a table's first use in the part, then record batches. A torn
tail, left by a crash in mid-write, ends a part; nothing after it was ever acknowledged.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from stallscope.schema import SCHEMA_VERSION, arrow_schema

_MAGIC = b"SSJ1"
_FILE_HEADER = struct.Struct("<4sI36s")  # magic, schema version, boot id
_RECORD = struct.Struct(
    "<IIQBB"
)  # body length, CRC-32 of all after it, sequence, kind, name length
_SCHEMA, _BATCH = 0, 1
MAX_RECORD_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """One acknowledged batch.

    Attributes:
        sequence: Rises by one per record of a writer, over all tables and restarts.
        table: Table name.
        batch: The rows, in the schema of ``version``.
        version: Schema version they were written with.
        boot_id: Boot in which their monotonic times count.
    """

    sequence: int
    table: str
    batch: pa.RecordBatch
    version: int
    boot_id: str


class Part:
    """A journal file being written."""

    def __init__(self, folder: Path, first_sequence: int, boot_id: str) -> None:
        """Create the part.

        Raises:
            OSError: The file cannot be made.
        """
        self.path = folder / f"{first_sequence:016d}.journal"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(self.path, flags, 0o640)
        self._known: set[str] = set()
        try:
            header = _FILE_HEADER.pack(_MAGIC, SCHEMA_VERSION, boot_id.encode()[:36])
            self._end = _write_all(self._file, header, 0)
        except OSError:
            self.close()
            self.path.unlink(missing_ok=True)
            raise

    def append(self, records: list[tuple[int, str, pa.RecordBatch]], *, sync: bool) -> None:
        """Write records with one write(); they are acknowledged when it returns.

        Raises:
            OSError: Nothing of it counts; the part is cut back to where it was.
        """
        known = set(self._known)
        data = b"".join(_encode(known, *record) for record in records)
        try:
            end = _write_all(self._file, data, self._end)
            if sync:
                os.fdatasync(self._file)
        except OSError:
            os.ftruncate(self._file, self._end)
            raise
        self._end = end
        self._known = known

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._end

    def close(self) -> None:
        """Close the file; it stays until its rows are sealed."""
        os.close(self._file)


def _write_all(file: int, data: bytes, offset: int) -> int:
    """Write all bytes at an offset and return the offset behind them."""
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view = view[written:]
        offset += written
    return offset


def _encode(known: set[str], sequence: int, table: str, batch: pa.RecordBatch) -> bytes:
    """Return the bytes of a record, its schema before it at the table's first use."""
    data = b""
    if table not in known:
        known.add(table)
        data = _frame(sequence, _SCHEMA, table, memoryview(arrow_schema(table).serialize()))
    return data + _frame(sequence, _BATCH, table, memoryview(batch.serialize()))


def _frame(sequence: int, kind: int, table: str, body: memoryview) -> bytes:
    """Return one framed record."""
    name = table.encode()
    crc = zlib.crc32(body, zlib.crc32(name, sequence & 0xFFFFFFFF))
    return b"".join((_RECORD.pack(len(body), crc, sequence, kind, len(name)), name, body))


def read_part(path: Path) -> tuple[list[Record], int]:
    """Return the acknowledged records of a part, in order, and how many were damaged.

    A torn tail, the mark of a crash in mid-write, is no damage: it was never acknowledged. A whole
    record whose checksum differs is; those around it are kept.

    Raises:
        OSError: The file cannot be read.
    """
    data = path.read_bytes()
    if len(data) < _FILE_HEADER.size or data[:4] != _MAGIC:
        return [], int(len(data) >= _FILE_HEADER.size)
    _, version, boot = _FILE_HEADER.unpack_from(data)
    boot_id = boot.rstrip(b"\0").decode(errors="replace")
    schemas: dict[str, pa.Schema] = {}
    records: list[Record] = []
    damaged = 0
    for frame in _frames(memoryview(data)[_FILE_HEADER.size :]):
        if not frame.intact or (frame.kind == _BATCH and frame.table not in schemas):
            damaged += 1
        elif frame.kind == _SCHEMA:
            schemas[frame.table] = pa.ipc.read_schema(pa.py_buffer(frame.body))
        else:
            batch = pa.ipc.read_record_batch(pa.py_buffer(frame.body), schemas[frame.table])
            records.append(Record(frame.sequence, frame.table, batch, version, boot_id))
    return records, damaged


@dataclass(frozen=True, slots=True)
class _Frame:
    """One whole record as it stands in the file."""

    sequence: int
    kind: int
    table: str
    body: memoryview
    intact: bool


def _frames(data: memoryview) -> Iterator[_Frame]:
    """Yield each whole record; what follows the last one is a torn tail."""
    while len(data) >= _RECORD.size:
        length, crc, sequence, kind, name_length = _RECORD.unpack_from(data)
        start = _RECORD.size + name_length
        end = start + length
        if length > MAX_RECORD_BYTES or end > len(data):
            return
        name, body = bytes(data[_RECORD.size : start]), data[start:end]
        intact = zlib.crc32(body, zlib.crc32(name, sequence & 0xFFFFFFFF)) == crc
        yield _Frame(sequence, kind, name.decode(errors="replace"), body, intact)
        data = data[end:]


def parts(folder: Path) -> list[Path]:
    """Return the journal parts of a folder, oldest first."""
    return sorted(folder.glob("*.journal"))


def free_sequence(folder: Path, wanted: int) -> int:
    """Return the first sequence from ``wanted`` on that names no part yet.

    A part that holds no whole record stays until the next seal; its name must not be taken again,
    or the seal would delete the new part.
    """
    while (folder / f"{wanted:016d}.journal").exists():
        wanted += 1
    return wanted
