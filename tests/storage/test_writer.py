from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stallscope.errors import LakeError
from stallscope.storage.housekeeping import Housekeeping
from stallscope.storage.reader import Lake
from stallscope.storage.retention import Limits
from stallscope.storage.writer import Writer, WriterOptions
from tests.storage.conftest import QUIET
from tests.storage.lake_rows import START_US, HandClock, disk, gaps

OpenWriter = Callable[..., Writer]


def requests_in(lake: Path) -> list[int]:
    with Lake(lake).connect(tables=["token_gap"]) as connection:
        found = connection.execute("SELECT request FROM token_gap ORDER BY request").fetchall()
    return [row[0] for row in found]


def copy_as_if_killed(lake: Path, target: Path) -> Path:
    """Return a copy of a lake as a kill -9 would leave it: no close, no seal, no lock."""
    return Path(shutil.copytree(lake, target, symlinks=True))


def test_acknowledged_rows_survive_a_kill_once(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    writer.append("token_gap", gaps(0, 10))
    writer.seal()
    writer.append("token_gap", gaps(10, 10))
    writer.flush()
    writer.append("token_gap", gaps(20, 10))  # never acknowledged
    killed = copy_as_if_killed(tmp_path / "lake", tmp_path / "killed")
    again = Writer.open(killed, "collect", clock=clock, options=QUIET)
    assert again.recovered.rows == 10
    again.close()
    assert requests_in(killed) == list(range(20))


def test_a_kill_between_segment_and_manifest_doubles_nothing(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    writer.append("token_gap", gaps(0, 10))
    writer.flush()
    lake = tmp_path / "lake"
    journal = copy_as_if_killed(lake, tmp_path / "before")
    writer.seal()
    shutil.copytree(lake / "segments", journal / "segments", dirs_exist_ok=True)
    Writer.open(journal, "collect", clock=clock, options=QUIET).close()
    assert requests_in(journal) == list(range(10))


def test_a_kill_between_manifest_and_journal_doubles_nothing(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    writer.append("token_gap", gaps(0, 10))
    writer.flush()
    lake = tmp_path / "lake"
    before = copy_as_if_killed(lake, tmp_path / "before")
    writer.seal()
    after = copy_as_if_killed(lake, tmp_path / "after")
    shutil.copytree(before / "journal", after / "journal", dirs_exist_ok=True)
    Writer.open(after, "collect", clock=clock, options=QUIET).close()
    assert requests_in(after) == list(range(10))


def test_sequences_go_on_where_they_were(open_writer: OpenWriter, tmp_path: Path) -> None:
    writer = open_writer()
    writer.append("token_gap", gaps(0, 1))
    assert writer.flush() == 1
    writer.close()
    again = open_writer()
    again.append("token_gap", gaps(1, 1))
    assert again.flush() == 2
    again.seal()
    assert requests_in(tmp_path / "lake") == [0, 1]


def test_a_second_writer_is_refused_and_told_who_holds_the_lake(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    open_writer()
    with pytest.raises(LakeError, match=rf"another 'collect' \(process {os.getpid()}\)"):
        Writer.open(tmp_path / "lake", "collect", clock=clock, options=QUIET)
    open_writer(name="watch")


def test_one_bad_row_costs_itself(open_writer: OpenWriter, tmp_path: Path) -> None:
    writer = open_writer()
    good, bad = disk(1, START_US, queue=1.5), disk(2, START_US, queue=2.5)
    bad["reads"] = "many"
    writer.append("block_device", [good, bad, disk(3, START_US, queue=0.5)])
    writer.append("no_such_table", [{"a": 1}])
    writer.seal()
    with Lake(tmp_path / "lake").connect(tables=["block_device"]) as connection:
        rows = connection.execute("SELECT device FROM block_device ORDER BY 1").fetchall()
    assert rows == [(1,), (3,)]
    assert writer.health().refused_rows == 2


def test_no_room_drops_new_rows_and_counts_them(open_writer: OpenWriter, tmp_path: Path) -> None:
    room = 3 * gaps(0, 10).nbytes
    writer = open_writer(
        WriterOptions(sync=False, journal_s=0, live_seal_s=0, housekeeping_s=0, incoming_bytes=room)
    )
    for first in range(0, 50, 10):
        writer.append("token_gap", gaps(first, 10))
    writer.seal()
    assert requests_in(tmp_path / "lake") == list(range(30))
    assert writer.health().dropped_rows == 20


def test_ids_are_never_given_out_twice(open_writer: OpenWriter) -> None:
    writer = open_writer()
    assert writer.reserve("engine") == 1
    assert writer.reserve("request", 100) == 1
    writer.close()
    again = open_writer()
    assert again.reserve("engine") == 2
    assert again.reserve("request", 5) == 101


def test_threads_seal_by_themselves(tmp_path: Path, clock: HandClock) -> None:
    options = WriterOptions(sync=False, journal_s=0.01, live_seal_s=0.02, housekeeping_s=0.02)
    writer = Writer.open(tmp_path / "lake", "collect", clock=clock, options=options)
    writer.append("token_gap", gaps(0, 5))
    deadline = time.monotonic() + 20
    while requests_in(tmp_path / "lake") != list(range(5)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    writer.close()
    assert list((tmp_path / "lake/journal/collect").iterdir()) == []


def test_a_refusing_disk_loses_nothing(open_writer: OpenWriter, tmp_path: Path) -> None:
    writer = open_writer()
    writer.append("token_gap", gaps(0, 5))
    writer.flush()
    segments = tmp_path / "lake/segments"
    segments.rename(tmp_path / "away")
    writer.seal()
    assert writer.health().state == "failed"
    assert "sealing" in writer.health().reason
    (tmp_path / "away").rename(segments)
    writer.append("token_gap", gaps(5, 5))
    writer.seal()
    assert writer.health().state == "working"
    assert requests_in(tmp_path / "lake") == list(range(10))


def test_a_flush_that_takes_nothing_acknowledges_nothing(
    open_writer: OpenWriter, tmp_path: Path
) -> None:
    writer = open_writer(replace(QUIET, pending_bytes=1))
    writer.append("token_gap", gaps(0, 5))
    writer.flush()
    segments = tmp_path / "lake/segments"
    segments.rename(tmp_path / "away")
    writer.seal()
    writer.append("token_gap", gaps(5, 5))
    with pytest.raises(LakeError, match="wait until older ones can be sealed"):
        writer.flush()
    (tmp_path / "away").rename(segments)
    writer.seal()
    writer.flush()
    writer.seal()
    assert requests_in(tmp_path / "lake") == list(range(10))


def test_a_damaged_journal_record_is_set_aside_and_said(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    for first in (0, 5, 10):
        writer.append("token_gap", gaps(first, 5))
        writer.flush()
    killed = copy_as_if_killed(tmp_path / "lake", tmp_path / "killed")
    part = next((killed / "journal/collect").glob("*.journal"))
    data = bytearray(part.read_bytes())
    data[data.index(gaps(5, 5).serialize().to_pybytes()) + 9] ^= 1
    part.write_bytes(data)
    again = Writer.open(killed, "collect", clock=clock, options=QUIET)
    assert again.health().quarantined == 1
    again.close()
    assert requests_in(killed) == [*range(5), *range(10, 15)]
    assert len(Lake(killed).status().quarantine) == 1


def test_a_second_kill_before_the_seal_finds_the_rows_of_a_damaged_part_again(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = open_writer()
    for first in (0, 5, 10):
        writer.append("token_gap", gaps(first, 5))
        writer.flush()
    killed = copy_as_if_killed(tmp_path / "lake", tmp_path / "killed")
    part = next((killed / "journal/collect").glob("*.journal"))
    flip(part, part.read_bytes().index(gaps(5, 5).serialize().to_pybytes()) + 9)

    def refuse(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full_disk:
        full_disk.setattr("stallscope.storage.writer.seal", refuse)
        Writer.open(killed, "collect", clock=clock, options=QUIET).close()
    Writer.open(killed, "collect", clock=clock, options=QUIET).close()
    assert requests_in(killed) == [*range(5), *range(10, 15)]
    assert list((killed / "journal/collect").iterdir()) == []
    assert len(Lake(killed).status().quarantine) == 1


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 2
    path.write_bytes(data)


def test_a_damaged_manifest_is_rebuilt_from_the_segments(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    assert writer.reserve("device", 9) == 1
    for first in range(0, 100, 10):
        writer.append("token_gap", gaps(first, 10, wall_us=clock.wall_us))
        writer.append("block_device", [disk(7, clock.wall_us, queue=1, reads=1)])
        writer.seal()
        clock.advance(15_000_000)
    housekeeping = Housekeeping(
        writer.layout, writer.manifest, "collect", clock, Limits(), 900, sync=False
    )
    housekeeping.round()
    writer.append("token_gap", gaps(100, 10, wall_us=clock.wall_us))
    writer.flush()
    before = rollups_in(tmp_path / "lake")
    killed = copy_as_if_killed(tmp_path / "lake", tmp_path / "killed")
    flip(killed / "manifest/collect.jsonl", 40)
    again = Writer.open(killed, "collect", clock=clock, options=QUIET)
    assert again.reserve("device") == 8
    again.close()
    assert requests_in(killed) == list(range(110))
    assert rollups_in(killed) == before
    assert "rebuilt" in Lake(killed).status().quarantine[0].reason


@pytest.mark.parametrize("kept_lines", [0, 2, 4, None])
def test_a_manifest_that_lost_commits_is_rebuilt_before_its_segments_pass_for_orphans(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock, kept_lines: int | None
) -> None:
    writer = open_writer()
    writer.reserve("engine")
    for first in (0, 10, 20, 30):
        writer.append("token_gap", gaps(first, 10))
        writer.seal()
    writer.append("token_gap", gaps(40, 10))
    writer.flush()
    killed = copy_as_if_killed(tmp_path / "lake", tmp_path / "killed")
    path = killed / "manifest/collect.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 5
    path.unlink()
    if kept_lines is not None:
        path.write_bytes(b"".join(lines[:kept_lines]))
    again = Writer.open(killed, "collect", clock=clock, options=QUIET)
    again.append("token_gap", gaps(50, 10))
    again.seal()
    assert again.reserve("engine") == 2
    again.close()
    assert requests_in(killed) == list(range(60))
    if kept_lines is not None:
        assert "lacks" in Lake(killed).status().quarantine[0].reason


def test_a_refusing_disk_is_not_filled_with_segments_that_do_not_count(
    open_writer: OpenWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = open_writer()

    def refuse(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer.manifest, "commit", refuse)
    for first in (0, 10, 20):
        writer.append("token_gap", gaps(first, 10))
        writer.seal()
    assert list((tmp_path / "lake/segments").glob("*/*")) == []
    monkeypatch.undo()
    writer.seal()
    assert requests_in(tmp_path / "lake") == list(range(30))


def rollups_in(lake: Path) -> list[tuple[object, ...]]:
    with Lake(lake).connect(tables=["block_device_1m"]) as connection:
        return connection.execute(
            "SELECT wall_us, sum(samples), sum(reads) FROM block_device_1m GROUP BY 1 ORDER BY 1"
        ).fetchall()


def test_a_manifest_damaged_under_a_running_writer_heals(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    for first in (0, 10):
        writer.append("token_gap", gaps(first, 10))
        writer.seal()
    flip(tmp_path / "lake/manifest/collect.jsonl", 40)
    housekeeping = Housekeeping(
        writer.layout, writer.manifest, "collect", clock, Limits(), 900, sync=False
    )
    housekeeping.round()
    assert "damaged" in housekeeping.finding
    assert requests_in(tmp_path / "lake") == list(range(20))
    writer.append("token_gap", gaps(20, 10))
    writer.seal()
    assert requests_in(tmp_path / "lake") == list(range(30))
