from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lab.crash.acks import Ack, AckFile, last_acks
from lab.crash.clock import LabClock
from lab.crash.numbered import DEVICES, engine_row, gauge_rows, token_rows
from lab.crash.reading import OwnReader
from lab.crash.verify import Verdict, check_reservations, verify_rows
from stallscope.clock import Instant
from stallscope.storage.writer import Writer, WriterOptions

_NOW = Instant(1_700_000_000_000_000, 5_000_000)
_TOKENS, _POLLS, _RUN = 2_500, 3, 4
_ACK = Ack(_RUN, _TOKENS, _POLLS, first_id=1)
_ROWS = _TOKENS + _POLLS * DEVICES + 1
Spoil = Callable[[Writer], None]


def _verdict(tmp_path: Path, spoil: Spoil | None = None, ack: Ack = _ACK) -> Verdict:
    options = WriterOptions(sync=False, journal_s=0, live_seal_s=0, housekeeping_s=0)
    writer = Writer.open(tmp_path / "lake", "collect", clock=LabClock(), options=options)
    writer.append("engine", [engine_row(_RUN, _NOW)])
    writer.append("token_gap", _tokens(0, _TOKENS))
    for poll in range(_POLLS):
        writer.append("block_device", gauge_rows(_RUN, poll, _NOW))
    if spoil:
        spoil(writer)
    writer.close()
    return verify_rows(OwnReader(), tmp_path / "lake", [ack])


def _tokens(first: int, count: int) -> pa.RecordBatch:
    return token_rows(_RUN, first, count, _NOW.wall_us, _NOW.wall_us + 3_000_000)


def test_sound_lake_holds(tmp_path: Path) -> None:
    verdict = _verdict(tmp_path)
    assert verdict == Verdict(_ROWS, _ROWS, 0, 0, 0, 0)
    assert verdict.holds


def test_row_that_was_not_acknowledged_may_be_there(tmp_path: Path) -> None:
    verdict = _verdict(tmp_path, ack=Ack(_RUN, _TOKENS - 100, _POLLS - 1, first_id=1))
    assert verdict.holds
    assert verdict.present - verdict.acknowledged == 100 + DEVICES


def test_acknowledged_row_that_is_missing_is_lost(tmp_path: Path) -> None:
    verdict = _verdict(tmp_path, ack=Ack(_RUN, _TOKENS + 7, _POLLS + 1, first_id=1))
    assert verdict.lost == 7 + DEVICES
    assert not verdict.holds


def test_whole_run_that_is_missing_is_lost(tmp_path: Path) -> None:
    _verdict(tmp_path)
    other = Ack(_RUN + 1, 10, 1, first_id=1)
    assert verify_rows(OwnReader(), tmp_path / "lake", [_ACK, other]).lost == 10 + DEVICES + 1


def test_second_copy_of_a_row_is_doubled(tmp_path: Path) -> None:
    verdict = _verdict(tmp_path, lambda writer: writer.append("token_gap", _tokens(100, 3)))
    assert (verdict.doubled, verdict.lost) == (3, 0)
    assert not verdict.holds


def test_changed_gap_is_altered(tmp_path: Path) -> None:
    def forge(writer: Writer) -> None:
        row = {**_tokens(_TOKENS, 1).to_pylist()[0], "itl_us": 1}
        writer.append("token_gap", [row])

    verdict = _verdict(tmp_path, forge, Ack(_RUN, _TOKENS + 1, _POLLS, first_id=1))
    assert (verdict.altered, verdict.lost) == (1, 0)


def test_rollup_without_its_rows_is_off(tmp_path: Path) -> None:
    cell = {
        "wall_us": _NOW.wall_us - _NOW.wall_us % 1_000_000,
        "engine": _RUN,
        "level": "gap",
        "bucket": 1,
        "lower_bucket": 0,
        "observations": 1,
    }

    def forge(writer: Writer) -> None:
        writer.seal()  # a commit with token rows makes the second's cells itself
        writer.append("itl_1s", [cell])

    verdict = _verdict(tmp_path, forge)
    assert verdict.rollup_off > 0
    assert not verdict.holds


def test_empty_lake_does_not_hold(tmp_path: Path) -> None:
    Writer.open(tmp_path / "lake", "collect", clock=LabClock()).close()
    assert not verify_rows(OwnReader(), tmp_path / "lake", [_ACK]).holds


@pytest.mark.parametrize(("second", "holds"), [(101, True), (100, False), (1, False)])
def test_reserved_blocks_may_not_overlap(second: int, *, holds: bool) -> None:
    acks = [Ack(2, 1, 1, first_id=second), Ack(1, 1, 1, first_id=1)]
    assert check_reservations(acks, block=100).holds is holds


def test_last_acknowledgement_of_each_run_counts(tmp_path: Path) -> None:
    file = AckFile(tmp_path / "acks")
    for ack in (Ack(1, 10, 1, 5), Ack(2, 7, 0, 105), Ack(1, 30, 2, 5)):
        file.write(ack)
    file.close()
    assert last_acks(tmp_path / "acks") == [Ack(1, 30, 2, 5), Ack(2, 7, 0, 105)]
    assert last_acks(tmp_path / "none") == []
