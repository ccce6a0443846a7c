from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stallscope.storage import housekeeping
from stallscope.storage.housekeeping import Housekeeping
from stallscope.storage.reader import Lake
from stallscope.storage.retention import Limits
from stallscope.storage.writer import Writer
from tests.storage.lake_rows import MINUTE_US, HandClock, disk

OpenWriter = Callable[..., Writer]
HOUR_US = 60 * MINUTE_US


@pytest.fixture
def writer(open_writer: OpenWriter, clock: HandClock) -> Writer:
    writer = open_writer()
    for second in range(4):
        wall = clock.wall_us
        rows = [disk(1, wall + row, queue=second, reads=1) for row in range(50)]
        writer.append("block_device", rows)
        writer.seal()
        clock.advance(1_000_000)
    return writer


@pytest.fixture
def keeper(writer: Writer, clock: HandClock) -> Housekeeping:
    return Housekeeping(writer.layout, writer.manifest, "collect", clock, Limits(), 900, sync=False)


def segment(writer: Writer, place: int) -> Path:
    return sorted((writer.layout.segments / "block_device").glob("*"))[place]


def count(writer: Writer) -> object:
    with Lake(writer.layout.root).connect(tables=["block_device"]) as connection:
        return connection.execute("SELECT count(*) FROM block_device").fetchone()


@pytest.mark.parametrize("place", [3, 60, 200, 1_000, -3])
def test_a_damaged_segment_that_is_due_to_be_merged_is_set_aside(
    writer: Writer, keeper: Housekeeping, clock: HandClock, place: int
) -> None:
    path = segment(writer, 1)
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)
    clock.advance(2 * MINUTE_US)
    keeper.round()
    assert keeper.quarantined == 1
    keeper.round()
    assert count(writer) == (150,)
    assert [e.level for e in writer.manifest.entries() if e.table == "block_device"] == [1]


def test_a_window_that_cannot_be_merged_is_told_and_retention_goes_on(
    writer: Writer, keeper: Housekeeping, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, sync: bool) -> list[str]:
        del sync
        raise MemoryError("too big")

    monkeypatch.setattr(housekeeping, "compact", refuse)
    clock.advance(2 * MINUTE_US)
    keeper.round()
    assert keeper.finding == "a window of block_device cannot be merged: too big"
    assert count(writer) == (200,)
    clock.advance(30 * HOUR_US)
    keeper.round()
    assert count(writer) == (0,)


def test_segments_that_are_away_for_a_while_are_not_given_up(
    writer: Writer, keeper: Housekeeping, tmp_path: Path
) -> None:
    writer.layout.segments.rename(tmp_path / "away")
    with pytest.raises(OSError, match="is missing; it is kept and tried again"):
        keeper.round()
    (tmp_path / "away").rename(writer.layout.segments)
    keeper.round()
    assert keeper.quarantined == 0
    assert count(writer) == (200,)


def test_a_table_that_was_deleted_is_given_up(writer: Writer, keeper: Housekeeping) -> None:
    shutil.rmtree(writer.layout.segments / "block_device")
    keeper.round()
    assert keeper.quarantined == 4
    assert count(writer) == (0,)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_segments_without_read_rights_are_not_given_up(
    writer: Writer, keeper: Housekeeping
) -> None:
    segment(writer, 0).chmod(0)
    with pytest.raises(OSError, match="it is kept and tried again"):
        keeper.round()
    assert keeper.quarantined == 0
    segment(writer, 0).chmod(0o600)
    assert count(writer) == (200,)


def test_a_segment_whose_reading_is_refused_for_now_is_not_given_up(
    writer: Writer, keeper: Housekeeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("stallscope.storage.segment.digest_file", refuse)
    monkeypatch.setattr(housekeeping, "may_pass", lambda *_: True)
    with pytest.raises(OSError, match="cannot be read: Permission denied; it is kept"):
        keeper.round()
    monkeypatch.undo()
    keeper.round()
    assert keeper.quarantined == 0
    assert count(writer) == (200,)
