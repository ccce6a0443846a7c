"""Results as files: written here from Arrow, never by the query itself."""

from __future__ import annotations

import io
import json
import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet


def as_csv(table: pa.Table) -> bytes:
    """Return a table as CSV with a header; lists as JSON, since CSV has no spelling for them."""
    flat = pa.table(
        {name: _flat(table.column(position)) for position, name in enumerate(_unique(table))}
    )
    out = io.BytesIO()
    pyarrow.csv.write_csv(flat, out)
    return out.getvalue()


def as_parquet(table: pa.Table) -> bytes:
    """Return a table as Parquet."""
    out = io.BytesIO()
    pyarrow.parquet.write_table(table.rename_columns(_unique(table)), out, compression="zstd")
    return out.getvalue()


def as_json(table: pa.Table) -> bytes:
    """Return a table as JSON, a list of objects; times as ISO 8601 in UTC, NaN as null."""
    named = table.rename_columns(_unique(table))
    rows = [{name: _plain(value) for name, value in row.items()} for row in named.to_pylist()]
    return json.dumps(rows, ensure_ascii=False, indent=1, allow_nan=False).encode()


def _unique(table: pa.Table) -> list[str]:
    """Return column names, each once: SELECT 1 AS a, 2 AS a gives the same name twice."""
    names: list[str] = []
    for name in table.column_names:
        found = name
        number = 2
        while found in names:
            found, number = f"{name}_{number}", number + 1
        names.append(found)
    return names


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column that CSV can hold."""
    kind = column.type
    if pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column
    return pa.chunked_array(
        [
            [
                None if value is None else json.dumps(_plain(value), ensure_ascii=False)
                for value in column.to_pylist()
            ]
        ],
        type=pa.string(),
    )


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever Arrow holds
    """Return a value that JSON has a spelling for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime | date):
        return f"{value.isoformat()}Z" if _is_utc(value) else value.isoformat()
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return _text(value)


def _is_utc(value: date) -> bool:
    """Return whether a time has no zone: then it is UTC, as all times of the lake are."""
    return isinstance(value, datetime) and value.tzinfo is None


def _text(value: Any) -> Any:  # noqa: ANN401 - whatever Arrow holds
    """Return what is neither number nor text as text."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, str | int) else str(value)
