from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope.schema import SCHEMA_VERSION
from stallscope.storage.journal import Part, free_sequence, read_part
from tests.storage.lake_rows import gaps

BOOT = "01234567-89ab-cdef-0123-456789abcdef"


@pytest.fixture
def part(tmp_path: Path) -> Path:
    written = Part(tmp_path, 7, BOOT)
    written.append([(7, "token_gap", gaps(0, 3))], sync=False)
    written.append([(8, "token_gap", gaps(3, 2)), (9, "token_gap", gaps(5, 1))], sync=False)
    written.close()
    return written.path


def test_reads_back_what_was_written(part: Path) -> None:
    records, damaged = read_part(part)
    assert damaged == 0
    assert [record.sequence for record in records] == [7, 8, 9]
    assert [record.batch.num_rows for record in records] == [3, 2, 1]
    assert records[1].batch.equals(gaps(3, 2))
    assert {(record.boot_id, record.version) for record in records} == {(BOOT, SCHEMA_VERSION)}


def test_every_torn_tail_keeps_the_whole_records_before_it(part: Path) -> None:
    data = part.read_bytes()
    for length in range(len(data)):
        part.write_bytes(data[:length])
        records, damaged = read_part(part)
        assert damaged == 0 or length < len(data)
        assert [record.sequence for record in records] == [7, 8, 9][: len(records)]
    part.write_bytes(data[:-1])
    assert [record.sequence for record in read_part(part)[0]] == [7, 8]


def test_a_flipped_bit_costs_one_record_and_is_counted(part: Path) -> None:
    data = bytearray(part.read_bytes())
    middle = data.index(gaps(3, 2).serialize().to_pybytes())
    data[middle + 40] ^= 1
    part.write_bytes(data)
    records, damaged = read_part(part)
    assert [record.sequence for record in records] == [7, 9]
    assert damaged == 1


def test_any_flipped_byte_costs_at_most_the_record_it_lies_in_and_is_counted(part: Path) -> None:
    data = part.read_bytes()
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 0x11
        part.write_bytes(flipped)
        records, damaged = read_part(part)
        missing = {7, 8, 9} - {record.sequence for record in records}
        assert len(missing) <= 1, place
        # the length of the very last record cannot be told from a crash in mid-write
        assert damaged == 1 or missing == {9}, place


def test_zeros_behind_the_records_as_a_power_cut_leaves_them_are_counted(part: Path) -> None:
    part.write_bytes(part.read_bytes() + bytes(4096))
    records, damaged = read_part(part)
    assert [record.sequence for record in records] == [7, 8, 9]
    assert damaged == 1


@given(st.binary(max_size=400))
def test_never_raises_on_foreign_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("part") / "1.journal"
    path.write_bytes(data)
    assert read_part(path)[0] == []


def test_a_part_is_never_written_over(tmp_path: Path) -> None:
    Part(tmp_path, 5, BOOT).close()
    with pytest.raises(FileExistsError):
        Part(tmp_path, 5, BOOT)
    assert free_sequence(tmp_path, 5) == 6
    assert free_sequence(tmp_path, 4) == 4
