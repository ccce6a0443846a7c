"""The journal: rows are acknowledged once they stand here, and survive a kill -9.

A part is a file of records. A record is a header (CRC-32, length, sequence, kind), a table name and
an Arrow IPC message: the schema at a table's first use in the part, then record batches. A torn
tail, left by a crash in mid-write, ends a part; nothing after it was ever acknowledged. Where a
record is damaged, its length included, reading goes on at the next one that is whole.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from stallscope.schema import SCHEMA_VERSION, TABLES, arrow_schema

_MAGIC = b"SSJ1"
_FILE_HEADER = struct.Struct("<4sI36s")  # magic, schema version, boot id
_CRC = struct.Struct("<I")  # of all that follows it, up to the end of its header or record
_RECORD = struct.Struct("<IQBB")  # body length, sequence, kind, name length; after a CRC
_BEFORE_KIND = _CRC.size + struct.calcsize("<IQ")
_SCHEMA, _BATCH = 0, 1
_NAMES = b"|".join(re.escape(bytes([len(name)]) + name.encode()) for name in TABLES)
_KIND_AND_NAME = re.compile(b"[\\x00\\x01](?:" + _NAMES + b")", re.DOTALL)


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
            self._end = _write_all(self._file, _sealed(header), 0)
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
    return _sealed(_RECORD.pack(len(body), sequence, kind, len(name)), name, body)


def _sealed(*parts: bytes | memoryview) -> bytes:
    """Return bytes behind their checksum."""
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    return b"".join((_CRC.pack(crc), *parts))


def read_part(path: Path) -> tuple[list[Record], int]:
    """Return the acknowledged records of a part, in order, and how many places were damaged.

    A torn tail, the mark of a crash in mid-write, is no damage: it was never acknowledged. A
    record whose checksum differs is; those around it are kept.

    Raises:
        OSError: The file cannot be read.
    """
    data = memoryview(path.read_bytes())
    begin = _CRC.size + _FILE_HEADER.size
    if len(data) < begin:
        return [], 0
    version, boot_id, damaged = SCHEMA_VERSION, "", 1
    if _is_sealed(data[:begin]) and data[_CRC.size : begin][:4] == _MAGIC:
        _, version, boot = _FILE_HEADER.unpack_from(data, _CRC.size)
        boot_id, damaged = boot.rstrip(b"\0").decode(errors="replace"), 0
    # a table's schema of today stands in for a damaged one of the same version
    schemas = {name: arrow_schema(name) for name in TABLES} if version == SCHEMA_VERSION else {}
    records: list[Record] = []
    for frame in _frames(data, begin):
        if frame is None or (frame.kind == _BATCH and frame.table not in schemas):
            damaged += 1
        elif frame.kind == _SCHEMA:
            schemas[frame.table] = pa.ipc.read_schema(pa.py_buffer(frame.body))
        else:
            batch = pa.ipc.read_record_batch(pa.py_buffer(frame.body), schemas[frame.table])
            records.append(Record(frame.sequence, frame.table, batch, version, boot_id))
    return records, damaged


def _is_sealed(data: memoryview) -> bool:
    """Return whether bytes agree with the checksum before them."""
    return bool(_CRC.unpack_from(data)[0] == zlib.crc32(data[_CRC.size :]))


@dataclass(frozen=True, slots=True)
class _Frame:
    """One record as it was written."""

    sequence: int
    kind: int
    table: str
    body: memoryview
    end: int


def _frames(data: memoryview, at: int) -> Iterator[_Frame | None]:
    """Yield each whole record, and None for each damaged place between or behind them."""
    while at < len(data):
        frame = _frame_at(data, at)
        if frame is not None:
            yield frame
            at = frame.end
            continue
        following = _next_frame(data, at + 1)
        if following < len(data) or not _is_torn(data, at):
            yield None
        at = following


def _frame_at(data: memoryview, at: int) -> _Frame | None:
    """Return the record that begins at an offset, or None when none does that is whole."""
    start = at + _CRC.size + _RECORD.size
    if start > len(data):
        return None
    length, sequence, kind, name_length = _RECORD.unpack_from(data, at + _CRC.size)
    end = start + name_length + length
    if end > len(data) or not _is_sealed(data[at:end]):
        return None
    name = bytes(data[start : start + name_length]).decode(errors="replace")
    return _Frame(sequence, kind, name, data[start + name_length : end], end)


def _next_frame(data: memoryview, at: int) -> int:
    """Return where the next whole record of a known table begins, the end of data when none."""
    for match in _KIND_AND_NAME.finditer(data, at + _BEFORE_KIND):
        begin = match.start() - _BEFORE_KIND
        if _frame_at(data, begin) is not None:
            return begin
    return len(data)


def _is_torn(data: memoryview, at: int) -> bool:
    """Return whether the last record of a part ends behind the file, as a crash leaves it."""
    start = at + _CRC.size + _RECORD.size
    if start > len(data):
        return True
    length, _, _, name_length = _RECORD.unpack_from(data, at + _CRC.size)
    return bool(start + name_length + length > len(data))


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
