"""Runs one query over the lake: connect, lock, check, execute, send Arrow batches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import count
from typing import BinaryIO

import duckdb
import pyarrow as pa

from stallscope.errors import LakeError, QueryRefusedError, StallscopeError
from stallscope.sql.guard import (
    QueryFailedError,
    check_statement,
    failure,
    one_line,
    too_big,
)
from stallscope.sql.lock import lock
from stallscope.sql.request import Limits, Report, Request
from stallscope.storage.layout import Layout
from stallscope.storage.reader import Lake

_BATCH_ROWS = 2_048  # one vector of DuckDB: a batch of wide texts must fit into the limit


def answer(request: Request, out: BinaryIO) -> Report:
    """Run the request's query and send its result as an Arrow stream.

    Never raises for what is wrong with the query or the lake; the report says it.
    """
    try:
        with closing(Lake(request.lake).connect(library=request.library)) as connection:
            segments = Layout(request.lake).segments
            lock(connection, segments, request.scratch / "spill", request.limits)
            statement = check_statement(connection, request.sql)
            truncated = _send(connection, statement, request.limits, out)
    except QueryRefusedError as error:
        return _report("refused", error)
    except QueryFailedError as error:
        return _report("failed", error)
    except LakeError as error:
        return _report("no_lake", error)
    except duckdb.Error as error:
        return _report("failed", failure(error))
    except (pa.ArrowException, OSError, MemoryError) as error:  # raised inside a batch
        return _report("failed", _failed_batch(error))
    return Report("done", truncated=truncated)


def _send(
    connection: duckdb.DuckDBPyConnection, statement: str, limits: Limits, out: BinaryIO
) -> bool:
    """Send the result; return whether rows were left out."""
    reader = connection.sql(statement).to_arrow_reader(_BATCH_ROWS)
    left = _Left(limits)
    names = unique_names(reader.schema.names)
    with pa.ipc.new_stream(out, pa.schema(map(pa.Field.with_name, reader.schema, names))) as writer:
        for batch in reader:
            writer.write_batch(left.take(batch.rename_columns(names)))
            if left.truncated:
                break
    return left.truncated


def unique_names(names: Sequence[str]) -> list[str]:
    """Return column names of which no two are the same, in any case: ``SELECT 1 a, 2 A``."""
    taken: set[str] = set()
    unique = []
    for name in names:
        candidates = (name if number == 0 else f"{name}_{number}" for number in count())
        free = next(one for one in candidates if one.lower() not in taken)
        taken.add(free.lower())
        unique.append(free)
    return unique


class _Left:
    """How much of the result may still be sent."""

    def __init__(self, limits: Limits) -> None:
        self._rows = limits.max_rows
        self._bytes = limits.max_bytes
        self.truncated = False

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the part of a batch that may be sent."""
        rows = batch.num_rows
        if self._rows is not None:
            rows = min(rows, self._rows)
        if self._bytes is not None and batch.nbytes > self._bytes:
            rows = min(rows, batch.num_rows * self._bytes // batch.nbytes)
        self.truncated = rows < batch.num_rows
        part = batch.slice(0, rows)
        if self._rows is not None:
            self._rows -= rows
        if self._bytes is not None:
            self._bytes = max(0, self._bytes - part.nbytes)
        return part


def _failed_batch(error: BaseException) -> QueryFailedError:
    """Return DuckDB's error as Arrow passes it on: its class is lost, its words are kept."""
    if isinstance(error, MemoryError) or str(error).startswith("Out of Memory"):
        return too_big()
    return QueryFailedError(one_line(error))


def _report(kind: str, error: StallscopeError) -> Report:
    return Report(kind, error.message, error.hint)
