"""Sealed segments: immutable Parquet files that DuckDB 1.5 and 2.0 both read.

Encodings are chosen per kind of column, measured on synthetic tokens and gauges: times and totals
as deltas, float32 gauges as split byte streams, everything that repeats as a dictionary.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stallscope.columns import Column, Kind, Table
from stallscope.errors import SegmentError
from stallscope.schema import SCHEMA_VERSION, arrow_schema
from stallscope.storage.manifest import Entry

_ROW_GROUP = 131_072
_READ_CHUNK = 1 << 20
_LISTS = frozenset({Kind.I64_LIST, Kind.U32_LIST})


@dataclass(frozen=True, slots=True)
class Origin:
    """What a segment is made of.

    Attributes:
        writer: Name of the writer.
        first: First journal sequence in it.
        last: Last journal sequence in it.
        boot_id: Boot in which its monotonic times count.
        level: 0 sealed, 1 a minute, 2 an hour, 3 a day.
    """

    writer: str
    first: int
    last: int
    boot_id: str
    level: int


def file_name(table: str, origin: Origin) -> str:
    """Return the path below the segments folder; named by sequence, since clocks step."""
    return f"{table}/{origin.writer}-{origin.first:016d}-{origin.last:016d}.parquet"


def write_segment(
    segments: Path, table: Table, data: Iterable[pa.Table], origin: Origin, *, sync: bool
) -> Entry:
    """Write a segment under a temporary name, sync it, and give it its name.

    Args:
        segments: The lake's segments folder.
        table: Its table.
        data: Row groups in order, each with the table's schema.
        origin: What it is made of.
        sync: Whether to fsync before the rename.

    Raises:
        OSError: It could not be written; nothing is left behind.
    """
    name = file_name(table.name, origin)
    path = segments / name
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        span = _write(temporary, table, data, origin)
        if sync:
            _sync(temporary)
        digest = digest_file(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return Entry(
        file=name,
        table=table.name,
        rows=span.rows,
        bytes=path.stat().st_size,
        digest=digest,
        lo=span.lo,
        hi=span.hi,
        version=SCHEMA_VERSION,
        boot_id=origin.boot_id,
        first=origin.first,
        last=origin.last,
        level=origin.level,
    )


@dataclass(slots=True)
class _Span:
    """Rows and time range of what was written so far."""

    rows: int = 0
    lo: int | None = None
    hi: int | None = None

    def add(self, data: pa.Table, time: str) -> None:
        """Take a row group in."""
        self.rows += data.num_rows
        if not time or not data.num_rows:
            return
        range_ = pc.min_max(data.column(time)).as_py()
        self.lo = range_["min"] if self.lo is None else min(self.lo, range_["min"])
        self.hi = range_["max"] if self.hi is None else max(self.hi, range_["max"])


def _write(path: Path, table: Table, data: Iterable[pa.Table], origin: Origin) -> _Span:
    """Write the Parquet file and return what it spans."""
    metadata = {
        "stallscope.schema": str(SCHEMA_VERSION),
        "stallscope.boot": origin.boot_id,
        "stallscope.writer": origin.writer,
        "stallscope.level": str(origin.level),
    }
    schema = arrow_schema(table.name).with_metadata(metadata)
    span = _Span()
    with pq.ParquetWriter(path, schema, **_options(table)) as writer:
        for group in data:
            span.add(group, table.time)
            writer.write_table(group.cast(schema), row_group_size=_ROW_GROUP)
    return span


def _options(table: Table) -> dict[str, object]:
    """Return the writer options of a table."""
    encodings = {
        column.name: encoding
        for column in table.columns
        if (encoding := _encoding(table, column)) is not None
    }
    return {
        "compression": "zstd",
        "compression_level": 3,
        "version": "2.6",
        "data_page_version": "1.0",
        "use_dictionary": [
            column.name
            for column in table.columns
            if column.name not in encodings and column.kind not in _LISTS
        ],
        "column_encoding": encodings,
        "write_statistics": [name for name in (table.time, *table.key) if name],
    }


def _encoding(table: Table, column: Column) -> str | None:
    """Return the encoding of a column, or None for a dictionary."""
    if column.kind is Kind.I64 or column.name in table.deltas:
        return "DELTA_BINARY_PACKED"
    if table.coarse:
        return None
    if column.kind in (Kind.F32, Kind.F64):
        return "BYTE_STREAM_SPLIT"
    return None


def _sync(path: Path) -> None:
    """Flush a file to the device."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def digest_file(path: Path) -> str:
    """Return the BLAKE2b-128 of a file as hex.

    Raises:
        OSError: It cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(_READ_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def check_segment(segments: Path, entry: Entry) -> None:
    """Compare a segment with what the manifest says of it.

    Raises:
        SegmentError: It is missing, truncated or altered.
    """
    path = segments / entry.file
    try:
        size = path.stat().st_size
        if size != entry.bytes:
            msg = f"{entry.file} has {size} bytes, {entry.bytes} were sealed"
            raise SegmentError(msg)
        if digest_file(path) != entry.digest:
            msg = f"{entry.file} was altered after it was sealed: its digest differs"
            raise SegmentError(msg)
    except FileNotFoundError:
        msg = f"{entry.file} is missing"
        raise SegmentError(msg) from None
    except OSError as error:
        msg = f"{entry.file} cannot be read: {error.strerror}"
        raise SegmentError(msg) from error


def read_batches(segments: Path, entry: Entry, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a segment in batches of at most so many rows.

    Raises:
        SegmentError: It is not readable Parquet.
    """
    try:
        with pq.ParquetFile(segments / entry.file, memory_map=False) as file:
            yield from file.iter_batches(batch_size=rows, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        msg = f"{entry.file} cannot be read: {error}"
        raise SegmentError(msg) from error
