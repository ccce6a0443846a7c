"""Results as people and programs want them: table, CSV, JSON, Parquet.

Everything but the table goes out batch by batch. A file appears under its name only when it is
whole.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from stallscope.commands.json_text import plain
from stallscope.commands.text_table import text_table
from stallscope.errors import StallscopeError
from stallscope.sql.console import Query


def export(query: Query, wanted: str, out: Path | None) -> int:
    """Write a query's result and return the number of rows.

    Args:
        query: The running query.
        wanted: One of `FORMATS`.
        out: File to write, or None for stdout.

    Raises:
        StallscopeError: The query fails on the way, or the file cannot be written.
    """
    write = FORMATS[wanted]
    if out is None:
        rows = write(query, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return rows
    with _whole_file(out) as file:
        return write(query, file)


@contextlib.contextmanager
def _whole_file(out: Path) -> Iterator[BinaryIO]:
    """Give a file that gets its name when all is written, and vanishes otherwise."""
    part = out.with_name(f".{out.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(out)
    except OSError as error:
        raise StallscopeError(
            f"Cannot write {out}: {error.strerror or error}",
            "Name another file with --out, or free space.",
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _write_table(query: Query, file: BinaryIO) -> int:
    rows = [list(row) for batch in query.batches() for row in rows_of(batch)]
    file.write(text_table(query.schema.names, rows).encode(_encoding(file), "backslashreplace"))
    return len(rows)


def _write_csv(query: Query, file: BinaryIO) -> int:
    rows = 0
    schema = pa.schema([_flat_field(field) for field in query.schema])
    with pyarrow.csv.CSVWriter(file, schema) as writer:
        for batch in query.batches():
            columns = [_flat(column) for column in batch.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            rows += batch.num_rows
    return rows


def _write_json(query: Query, file: BinaryIO) -> int:
    rows = 0
    names = query.schema.names
    file.write(b"[")
    for batch in query.batches():
        for row in rows_of(batch):
            item = dict(zip(names, map(plain, row), strict=True))
            file.write(b"\n " if rows == 0 else b",\n ")
            file.write(json.dumps(item, ensure_ascii=False).encode())
            rows += 1
    file.write(b"\n]\n" if rows else b"]\n")
    return rows


def _write_parquet(query: Query, file: BinaryIO) -> int:
    rows = 0
    schema = pa.schema([_storable_field(field) for field in query.schema])
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in query.batches():
            columns = [
                _flat(column) if _is_interval(column.type) else column for column in batch.columns
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            rows += batch.num_rows
    return rows


FORMATS: Mapping[str, Callable[[Query, BinaryIO], int]] = {
    "table": _write_table,
    "csv": _write_csv,
    "json": _write_json,
    "parquet": _write_parquet,
}


def rows_of(batch: pa.RecordBatch) -> Iterator[Sequence[object]]:
    """Yield the rows of a batch as Python values; 32-bit floats keep their short spelling."""
    columns = [_values(column) for column in batch.columns]
    yield from zip(*columns, strict=True)


def _values(column: pa.Array) -> list[object]:
    if pa.types.is_float32(column.type):
        return [None if value is None else _short(value) for value in column.to_pylist()]
    if _is_interval(column.type):
        return [None if value is None else _duration(value) for value in column.to_pylist()]
    return list(column.to_pylist())


def _short(value: float) -> float:
    """Return 0.1 for the 32-bit 0.1, which as a Python float is 0.10000000149011612."""
    return float(str(np.float32(value)))


def _duration(value: pa.MonthDayNano) -> str:
    """Return an interval as ISO 8601 spells it, for example P0M1DT2.5S."""
    return f"P{value.months}M{value.days}DT{value.nanoseconds / 1e9:g}S"


def _flat_field(field: pa.Field) -> pa.Field:
    return field if _is_flat(field.type) else pa.field(field.name, pa.string())


def _storable_field(field: pa.Field) -> pa.Field:
    """Return a field that Parquet can hold: intervals have no type there and become text."""
    return pa.field(field.name, pa.string()) if _is_interval(field.type) else field


def _flat(column: pa.Array) -> pa.Array:
    """Return a column as CSV can hold it: lists and structures become JSON."""
    if _is_flat(column.type):
        return column
    texts = [None if value is None else _text(plain(value)) for value in _values(column)]
    return pa.array(texts, pa.string())


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_flat(kind: pa.DataType) -> bool:
    return not (
        pa.types.is_nested(kind)
        or pa.types.is_dictionary(kind)
        or _is_interval(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_duration(kind)
    )


def _is_interval(kind: pa.DataType) -> bool:
    return bool(pa.types.is_interval(kind))


def _encoding(file: BinaryIO) -> str:
    """Return the encoding of the terminal, or UTF-8 for a file."""
    return sys.stdout.encoding if file is sys.stdout.buffer else "utf-8"
