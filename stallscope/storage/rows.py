"""Rows in, Arrow batches out, by the schema and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from stallscope.columns import Table
from stallscope.schema import SCHEMA_VERSION, TABLES, arrow_schema


def to_batch(table: str, rows: Sequence[Mapping[str, object]] | pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as one batch with the table's schema.

    Args:
        table: Table name.
        rows: Mappings by column name (what is left out is NULL), or a batch with these columns.

    Raises:
        KeyError: The table, or a column of a row, is not in the schema.
        pa.ArrowException: A value does not fit its column, or a column that is never NULL is.
    """
    schema = arrow_schema(table)
    if isinstance(rows, pa.RecordBatch):
        batch = rows if rows.schema.equals(schema) else rows.select(schema.names).cast(schema)
    else:
        _refuse_unknown(table, rows, schema)
        batch = pa.RecordBatch.from_pylist(list(rows), schema=schema)
    _refuse_nulls(table, batch)
    return batch


def keep_good_rows(
    table: str, rows: Sequence[Mapping[str, object]]
) -> tuple[pa.RecordBatch, int, str]:
    """Return the rows that fit, the number that do not, and why the first did not."""
    good, refused, reason = [], 0, ""
    for row in rows:
        try:
            good.append(to_batch(table, [row]))
        except (KeyError, ValueError, TypeError, pa.ArrowException, OverflowError) as error:
            refused += 1
            reason = reason or f"{table}: {error}"
    return pa.concat_batches(good) if good else to_batch(table, []), refused, reason


def _refuse_unknown(table: str, rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> None:
    """Raise KeyError for a key that is no column: from_pylist would drop it in silence."""
    names = set(schema.names)
    for row in rows:
        if not row.keys() <= names:
            msg = f"table {table} has no column {', '.join(sorted(row.keys() - names))}"
            raise KeyError(msg)


def _refuse_nulls(table: str, batch: pa.RecordBatch) -> None:
    """Raise for a NULL where the schema allows none: Arrow itself does not check."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            msg = f"{table}.{field.name} may not be NULL"
            raise pa.ArrowInvalid(msg)


def upgrade(table: Table, batch: pa.RecordBatch, version: int) -> pa.RecordBatch:
    """Return a batch that an older schema version wrote, with today's columns.

    Renamed columns are found by their old names, new ones are NULL, removed ones are dropped.
    """
    if version == SCHEMA_VERSION:
        return batch
    schema = arrow_schema(table.name) if table.name in TABLES else batch.schema
    arrays = []
    for column, field in zip(table.columns, schema, strict=True):
        name = name_in_version(column.name, column.was, version)
        if name in batch.schema.names:
            arrays.append(batch.column(name).cast(field.type))
        else:
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def name_in_version(name: str, was: Sequence[tuple[int, str]], version: int) -> str:
    """Return what a column was called in a schema version.

    Args:
        name: Today's name.
        was: Earlier names as (last version that used it, name).
        version: The version asked for.
    """
    for last, old in sorted(was):
        if version <= last:
            return old
    return name
