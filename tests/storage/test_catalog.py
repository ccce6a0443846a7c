from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stallscope.columns import Column, Kind
from stallscope.schema import TABLES
from stallscope.storage.direct import seal_directly
from stallscope.storage.maintenance import compact_now, relocate, verify
from stallscope.storage.manifest import Entry
from stallscope.storage.publisher import Publisher
from stallscope.storage.reader import Lake
from stallscope.storage.rows import upgrade
from stallscope.storage.views import relation
from stallscope.storage.writer import Writer
from tests.storage.lake_rows import START_US, HandClock, disk, gaps

OpenWriter = Callable[..., Writer]


def count(catalog: Path, table: str = "token_gap") -> int:
    with duckdb.connect(str(catalog), read_only=True) as connection:
        found = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert found is not None
    return int(found[0])


def test_an_open_handle_stays_valid_and_a_new_one_sees_new_rows(open_writer: OpenWriter) -> None:
    writer = open_writer()
    publisher = Publisher(writer.layout)
    writer.append("token_gap", gaps(0, 10))
    writer.seal()
    assert publisher.publish_if_changed()
    assert not publisher.publish_if_changed()
    with duckdb.connect(str(writer.layout.catalog), read_only=True) as old:
        writer.append("token_gap", gaps(10, 10))
        writer.seal()
        assert publisher.publish_if_changed()
        assert count(writer.layout.catalog) == 20
        assert old.execute("SELECT count(*) FROM token_gap").fetchall() == [(10,)]


def test_three_generations_are_kept(open_writer: OpenWriter) -> None:
    writer = open_writer()
    publisher = Publisher(writer.layout)
    for number in range(5):
        writer.append("token_gap", gaps(number, 1))
        writer.seal()
        publisher.publish_if_changed()
    generations = sorted(path.name for path in writer.layout.root.glob("catalog-*.duckdb"))
    assert generations == [f"catalog-{number:012d}.duckdb" for number in (3, 4, 5)]
    assert writer.layout.catalog.readlink().name == generations[-1]


def test_what_a_killed_publisher_left_is_cleared(open_writer: OpenWriter) -> None:
    writer = open_writer()
    for name in ("catalog-000000000001.tmp", "catalog-000000000001.tmp.wal"):
        (writer.layout.root / name).write_bytes(b"torn")
    writer.append("token_gap", gaps(0, 10))
    writer.seal()
    Publisher(writer.layout).publish_if_changed()
    assert count(writer.layout.catalog) == 10
    assert list(writer.layout.root.glob("catalog-*.tmp*")) == []


def test_every_table_is_there_and_typed_before_any_row(open_writer: OpenWriter) -> None:
    writer = open_writer()
    Publisher(writer.layout).publish_if_changed()
    with duckdb.connect(str(writer.layout.catalog), read_only=True) as connection:
        for table in TABLES.values():
            described = connection.execute(f"DESCRIBE {table.name}").fetchall()
            names = [column.name for column in table.columns]
            assert [row[0] for row in described] == [*names, "time"]
            assert connection.execute(f"SELECT count(*) FROM {table.name}").fetchall() == [(0,)]


def test_time_is_utc_even_where_the_host_is_not(
    open_writer: OpenWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    writer = open_writer()
    # 2025-10-26: the day with 25 hours in Berlin
    walls = [1_761_429_600_000_000 + hour * 3_600_000_000 for hour in range(25)]
    for number, wall in enumerate(walls):
        writer.append("token_gap", gaps(number, 1, wall_us=wall))
    writer.seal()
    with Lake(writer.layout.root).connect(tables=["token_gap"]) as connection:
        hours = connection.execute(
            "SELECT count(DISTINCT date_trunc('hour', time)), min(time)::VARCHAR FROM token_gap"
        ).fetchall()
    assert hours == [(25, "2025-10-25 22:00:00")]


def test_a_truncated_segment_is_passed_over_and_named(open_writer: OpenWriter) -> None:
    writer = open_writer()
    for first in (0, 10):
        writer.append("token_gap", gaps(first, 10))
        writer.seal()
    entry = next(e for e in writer.manifest.entries() if e.table == "token_gap")
    path = writer.layout.segments / entry.file
    path.write_bytes(path.read_bytes()[:-1])
    Publisher(writer.layout).publish_if_changed()
    assert count(writer.layout.catalog) == 10
    with Lake(writer.layout.root).connect(tables=["token_gap"]) as connection:
        assert connection.execute("SELECT count(*) FROM token_gap").fetchall() == [(10,)]
    assert [finding.file for finding in verify(writer.layout.root)] == [f"segments/{entry.file}"]


def test_verify_names_a_single_flipped_bit(open_writer: OpenWriter) -> None:
    writer = open_writer()
    writer.append("token_gap", gaps(0, 1000))
    writer.seal()
    assert verify(writer.layout.root) == []
    entry = next(e for e in writer.manifest.entries() if e.table == "token_gap")
    path = writer.layout.segments / entry.file
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 16
    path.write_bytes(data)
    findings = verify(writer.layout.root)
    assert [(f.file, f.rows) for f in findings] == [(f"segments/{entry.file}", 1000)]
    assert "altered" in findings[0].problem


def test_a_moved_lake_is_published_from_its_new_place(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    writer.append("token_gap", gaps(0, 10))
    writer.seal()
    Publisher(writer.layout).publish_if_changed()
    writer.close()
    moved = writer.layout.root.rename(tmp_path / "moved")
    assert count(relocate(moved)) == 10
    clock.advance(600_000_000)
    assert compact_now(moved, clock) > 0


def test_direct_rows_join_those_of_the_collector(open_writer: OpenWriter) -> None:
    writer = open_writer()
    writer.append("block_device", [disk(1, START_US, queue=1)])
    writer.seal()
    for text in ("first", "second"):
        note = {"wall_us": START_US, "text": text}
        seal_directly(writer.layout.root, {"note": [note]}, sync=False)
    with Lake(writer.layout.root).connect(tables=["note", "block_device"]) as connection:
        rows = connection.execute(
            "SELECT text, (SELECT count(*) FROM block_device) FROM note ORDER BY 1"
        ).fetchall()
    assert rows == [("first", 1), ("second", 1)]


def older_generation(tmp_path: Path) -> tuple[Entry, pa.Table]:
    """Write a segment as a version 0 would have: one column named otherwise, one not there yet."""
    rows = pa.table({"wall_us": [1], "gap_us": [7], "removed": ["x"]})
    pq.write_table(rows, tmp_path / "old.parquet")
    entry = Entry(
        file="old.parquet", table="token_gap", rows=1, bytes=1, digest="", lo=1, hi=1,
        version=0, boot_id="", first=1, last=1, level=0,
    )  # fmt: skip
    return entry, rows


def test_older_generations_are_read_through_renames_additions_and_removals(
    tmp_path: Path,
) -> None:
    entry, _ = older_generation(tmp_path)
    wall = replace(TABLES["token_gap"].column("wall_us"), since=0)
    table = replace(
        TABLES["token_gap"],
        columns=(
            wall,
            Column("itl_us", Kind.I64, "us", "Renamed.", since=0, was=((0, "gap_us"),)),
            Column("added", Kind.U16, "-", "New.", since=1),
        ),
    )
    pq.write_table(
        pa.table({"wall_us": [2], "itl_us": [8], "added": pa.array([3], pa.uint16())}),
        tmp_path / "new.parquet",
    )
    new = replace(entry, file="new.parquet", version=1, first=2, last=2)
    with duckdb.connect() as connection:
        query = f"SELECT * FROM ({relation(table, [entry, new], tmp_path)}) ORDER BY wall_us"
        assert connection.execute(query).fetchall() == [(1, 7, None), (2, 8, 3)]


def test_older_journal_rows_are_upgraded() -> None:
    old = pa.RecordBatch.from_pydict({"wall_us": [1], "gap_us": [7], "removed": ["x"]})
    renamed = replace(TABLES["token_gap"].column("itl_us"), was=((0, "gap_us"),))
    columns = tuple(
        renamed if column.name == "itl_us" else column for column in TABLES["token_gap"].columns
    )
    table = replace(TABLES["token_gap"], columns=columns)
    row = upgrade(table, old, 0).to_pylist()[0]
    assert (row["wall_us"], row["itl_us"], row["engine"]) == (1, 7, None)


def test_the_oldest_supported_duckdb_reads_the_catalog(
    open_writer: OpenWriter, duckdb15: Path
) -> None:
    writer = open_writer()
    writer.append("token_gap", gaps(0, 10))
    writer.append("block_device", [disk(1, START_US, queue=1.25)])
    writer.seal()
    Publisher(writer.layout).publish_if_changed()
    script = (
        "import duckdb, sys\n"
        "c = duckdb.connect(sys.argv[1], read_only=True)\n"
        "print(duckdb.__version__, "
        "c.sql('SELECT count(*), sum(itl_us), sum(request), sum(chunk_index) FROM token_gap')"
        ".fetchall(),"
        " c.sql('SELECT queue_mean FROM block_device').fetchall())\n"
    )
    done = subprocess.run(
        [duckdb15, "-c", script, writer.layout.catalog],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "1.5.5 [(10, 90000, 45, 10)] [(1.25,)]"
