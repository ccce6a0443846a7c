"""From the columns of datagrams to columns of a table, a whole poll at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from collector.tap_lane import Letter
from collector.tap_sessions import TapSession
from collector.tap_wire import Message, Numbers
from stallscope.columns import ARROW, Kind, Table
from stallscope.schema import arrow_schema
from stallscope.units import US_PER_SECOND

_LARGEST = {Kind.U8: 2**8 - 1, Kind.U16: 2**16 - 1, Kind.U32: 2**32 - 1, Kind.I64: 2**63 - 1}
_NUMPY = {
    Kind.U8: np.uint8,
    Kind.U16: np.uint16,
    Kind.U32: np.uint32,
    Kind.I64: np.int64,
    Kind.F32: np.float32,
}
_OLDEST_US = 600 * US_PER_SECOND
_NEWEST_US = 5 * US_PER_SECOND

Flags = npt.NDArray[np.bool_]
Micros = npt.NDArray[np.int64]


class TapColumns:
    """The columns of some datagrams of one session and one layout, joined.

    Attributes:
        rows: How many rows they have.
        refused: Values that were refused so far; they are NULL, their neighbours stay.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._columns = [message.columns for message in messages]
        self.rows = sum(message.header.rows for message in messages)
        self.refused = 0

    def raw(self, name: str) -> Numbers | None:
        """Return a column as it was sent; None when it was not."""
        if name not in self._columns[0]:
            return None
        if len(self._columns) == 1:
            return self._columns[0][name]
        return np.concatenate([columns[name] for columns in self._columns])

    def whole(self, name: str, missing: int) -> Micros:
        """Return a column of whole numbers, with ``missing`` where there is none."""
        values = self.raw(name)
        if values is None or values.dtype.kind not in "iu":
            return np.full(self.rows, missing, dtype=np.int64)
        bad = (values < 0) | (values >= min(_maximum(values), _LARGEST[Kind.I64]))
        whole = values.astype(np.int64)
        whole[bad] = missing
        return whole

    def column(self, name: str, kind: Kind) -> pa.Array:
        """Return a column for a table; NULL where a value is missing or cannot be one.

        Args:
            name: On the wire.
            kind: In the table: no value of ours is negative.
        """
        values = self.raw(name)
        if values is None:
            return pa.nulls(self.rows, ARROW[kind])
        missing, bad = _find_missing(values), _find_bad(values, kind)
        self.refused += int(np.count_nonzero(bad & ~missing))
        absent = missing | bad
        with np.errstate(invalid="ignore", over="ignore"):  # of values that are absent anyway
            stored = values.astype(_NUMPY[kind], copy=False)
        return pa.array(stored, mask=absent if absent.any() else None, type=ARROW[kind])


def _find_missing(values: Numbers) -> Flags:
    """Return where the sender had no value."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    missing: Flags = values == _maximum(values)
    return missing


def _maximum(values: Numbers) -> int:
    """Return the largest number of a whole type, which stands for a missing one."""
    bits = 8 * values.dtype.itemsize
    return (1 << (bits - (values.dtype.kind == "i"))) - 1


def _find_bad(values: Numbers, kind: Kind) -> Flags:
    """Return where a value is none that its column can have."""
    if kind is Kind.F32:
        return (values < 0) | ~np.isfinite(values)
    if values.dtype.kind == "f":
        return np.ones(len(values), dtype=np.bool_)
    bad: Flags = (values < 0) | (values > _LARGEST[kind])
    return bad


def find_times(session: TapSession, tap_us: Micros, now_us: int) -> tuple[Micros, Flags]:
    """Return moments on our monotonic clock, and which of them can be.

    A row of next year, or of before a tap kept datagrams for, would end up in a minute of its own
    for ever.

    Args:
        session: Whose clock they are on.
        tap_us: The moments.
        now_us: Our monotonic time.
    """
    mono_us = tap_us + session.clock.shift_us
    possible = (tap_us >= 0) & (mono_us >= now_us - _OLDEST_US) & (mono_us <= now_us + _NEWEST_US)
    return mono_us, possible


def to_batch(table: Table, columns: dict[str, pa.Array], keep: Flags) -> pa.RecordBatch:
    """Return the rows to be kept as a batch of the table.

    Args:
        table: The table.
        columns: Its columns by name; those that are left out are NULL.
        keep: Which rows.
    """
    schema = arrow_schema(table.name)
    arrays = [columns.get(field.name, pa.nulls(len(keep), field.type)) for field in schema]
    if keep.all():
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    mask = pa.array(keep)
    return pa.RecordBatch.from_arrays([array.filter(mask) for array in arrays], schema=schema)


def join(table: Table, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of a table as one."""
    if len(batches) == 1:
        return batches[0]
    schema = arrow_schema(table.name)
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=schema)


def groups(letters: Sequence[Letter]) -> list[list[Letter]]:
    """Return letters by session and layout of their columns, each in the order they came."""
    found: dict[object, list[Letter]] = {}
    for letter in letters:
        found.setdefault((letter.session.key, letter.message.layout), []).append(letter)
    return list(found.values())
