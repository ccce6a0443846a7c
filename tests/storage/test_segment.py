from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stallscope.errors import SegmentError
from stallscope.schema import TABLES, arrow_schema
from stallscope.storage.rows import to_batch
from stallscope.storage.segment import Origin, check_segment, read_batches, write_segment
from tests.storage.lake_rows import gaps
from tests.storage.row_strategies import rows_of

ORIGIN = Origin("collect", 1, 2, "boot", level=0)


@pytest.mark.parametrize("table", TABLES)
@settings(
    max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(data=st.data())
def test_rows_of_every_table_come_back(tmp_path: Path, table: str, data: st.DataObject) -> None:
    rows = data.draw(rows_of(table))
    batch = to_batch(table, rows)
    whole = pa.Table.from_batches([batch])
    entry = write_segment(tmp_path, TABLES[table], [whole], ORIGIN, sync=False)
    read = pa.Table.from_batches(list(read_batches(tmp_path, entry, 100)))
    assert read.cast(arrow_schema(table)).equals(whole)
    assert entry.rows == len(rows)
    times = [row[TABLES[table].time] for row in rows]
    assert (entry.lo, entry.hi) == (min(times), max(times))  # type: ignore[type-var]


def test_a_row_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(KeyError, match="token_gap has no column colour"):
        to_batch("token_gap", [{"colour": 1}])
    with pytest.raises(pa.ArrowInvalid, match="wall_us may not be NULL"):
        to_batch("token_gap", [{"engine": 1, "request": 1, "chunk_index": 0}])


def test_truncation_alteration_and_loss_are_told_apart(tmp_path: Path) -> None:
    rows = pa.Table.from_batches([gaps(0, 1000)])
    entry = write_segment(tmp_path, TABLES["token_gap"], [rows], ORIGIN, sync=True)
    path = tmp_path / entry.file
    good = path.read_bytes()
    check_segment(tmp_path, entry)
    path.write_bytes(good[:-7])
    with pytest.raises(SegmentError, match=f"has {len(good) - 7} bytes, {len(good)} were sealed"):
        check_segment(tmp_path, entry)
    path.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
    with pytest.raises(SegmentError, match="altered after it was sealed"):
        check_segment(tmp_path, entry)
    path.unlink()
    with pytest.raises(SegmentError, match="is missing"):
        check_segment(tmp_path, entry)


def test_nothing_is_left_behind_by_a_failed_write(tmp_path: Path) -> None:
    rows = pa.Table.from_batches([gaps(0, 10)])
    (tmp_path / "token_gap").mkdir()
    target = tmp_path / "token_gap" / "collect-0000000000000001-0000000000000002.parquet"
    target.mkdir()  # a rename onto a folder fails as a full disk would
    with pytest.raises(OSError, match="directory"):
        write_segment(tmp_path, TABLES["token_gap"], [rows], ORIGIN, sync=False)
    assert list((tmp_path / "token_gap").iterdir()) == [target]


def test_segments_avoid_what_older_readers_cannot_decode(tmp_path: Path) -> None:
    rows = pa.Table.from_batches([gaps(0, 10)])
    entry = write_segment(tmp_path, TABLES["token_gap"], [rows], ORIGIN, sync=False)
    group = pq.read_metadata(tmp_path / entry.file).row_group(0)
    for index in range(group.num_columns):
        column = group.column(index)
        if column.physical_type in {"INT32", "INT64"}:
            assert "BYTE_STREAM_SPLIT" not in column.encodings
