"""Rows for any table, drawn from its schema."""

from __future__ import annotations

from hypothesis import strategies as st

from stallscope.columns import Column, Kind
from stallscope.schema import TABLES

_TIME = st.integers(1_700_000_000_000_000, 1_900_000_000_000_000)
_VALUES: dict[Kind, st.SearchStrategy[object]] = {
    Kind.BOOL: st.booleans(),
    Kind.U8: st.integers(0, 2**8 - 1),
    Kind.U16: st.integers(0, 2**16 - 1),
    Kind.U32: st.integers(0, 2**32 - 1),
    Kind.I16: st.integers(-(2**15), 2**15 - 1),
    Kind.I64: st.integers(-(2**62), 2**62),
    Kind.F32: st.floats(width=32, allow_nan=False),
    Kind.F64: st.floats(allow_nan=False),
    Kind.TEXT: st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
    Kind.I64_LIST: st.lists(st.integers(0, 2**62), max_size=4),
    Kind.U32_LIST: st.lists(st.integers(0, 2**32 - 1), max_size=4),
}


def _values(column: Column) -> st.SearchStrategy[object]:
    values = _TIME if column.name in {"wall_us", "mono_us"} else _VALUES[column.kind]
    return st.none() | values if column.nullable else values


def rows_of(table: str) -> st.SearchStrategy[list[dict[str, object]]]:
    """Return lists of rows that fit a table."""
    columns = TABLES[table].columns
    row = st.fixed_dictionaries({column.name: _values(column) for column in columns})
    return st.lists(row, min_size=1, max_size=5)
