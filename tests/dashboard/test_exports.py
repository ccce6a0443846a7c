from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

from dashboard.exports import as_csv, as_json, as_parquet

TABLE = pa.table(
    {
        "time": pa.array([datetime(2026, 11, 18, 2, 46, 52), None], pa.timestamp("us")),  # noqa: DTZ001
        "name": ['<img src=x onerror="alert(1)">', "a,b\nc"],
        "bounds": pa.array([[1, 2], None], pa.list_(pa.int64())),
        "value": [float("nan"), 1.5],
        "total": pa.array([Decimal(12), Decimal("1.25")], pa.decimal128(10, 2)),
    }
)


def test_csv_reads_back() -> None:
    header, first, second = csv.reader(io.StringIO(as_csv(TABLE).decode()))
    assert header == TABLE.column_names
    assert first[1:3] == ['<img src=x onerror="alert(1)">', "[1, 2]"]
    assert second == ["", "a,b\nc", "", "1.5", "1.25"]


def test_json_has_no_nan_and_says_utc() -> None:
    first, second = json.loads(as_json(TABLE))
    assert first == {
        "time": "2026-11-18T02:46:52Z", "name": '<img src=x onerror="alert(1)">',
        "bounds": [1, 2], "value": None, "total": 12,
    }  # fmt: skip
    assert second["time"] is None
    assert second["total"] == 1.25


def test_parquet_is_the_table() -> None:
    again = pq.read_table(io.BytesIO(as_parquet(TABLE)))
    assert repr(again.to_pylist()) == repr(TABLE.to_pylist())  # NaN is not equal to itself


def test_a_name_that_stands_twice_is_kept_apart() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "a", "a_2"])
    assert json.loads(as_json(twice)) == [{"a": 1, "a_2": 2, "a_2_2": 3}]
    assert as_csv(twice).decode().splitlines()[0] == '"a","a_2","a_2_2"'
    assert pq.read_table(io.BytesIO(as_parquet(twice))).num_columns == 3


def test_what_json_has_no_spelling_for_becomes_text_or_a_number() -> None:
    odd = pa.table({
        "span": [timedelta(seconds=90)], "bytes": [b"\x01\xff"], "struct": [{"x": float("inf")}],
        "zoned": pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    })  # fmt: skip
    assert json.loads(as_json(odd)) == [{
        "span": 90.0, "bytes": "01ff", "struct": {"x": None}, "zoned": "2026-01-01T00:00:00+00:00",
    }]  # fmt: skip
    assert b'"x"' in as_csv(odd).replace(b'""', b'"')
