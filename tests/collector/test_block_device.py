from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.block_device import BlockDevice
from collector.source import NoData, Reading, Row, State
from stallscope.schema import table
from tests.collector.fake_machine import (
    FakeMachine,
    count_descriptors,
    disk_line,
    refusal_of,
    row_of,
    rows_of,
)
from tests.collector.stand_ins import SECOND

_TICK = 100_000


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def _next(fake: FakeMachine, source: BlockDevice, *lines: str, us: int = _TICK) -> list[Row]:
    fake.show_disks(*lines)
    fake.clock.advance(us)
    return list(rows_of(source))


def test_the_first_row_of_a_disk_has_its_queue_and_no_rates(fake: FakeMachine) -> None:
    fake.show_disks(disk_line("nvme0n1", reads=1000, in_flight=4))
    row = row_of(BlockDevice(fake.machine))
    assert (row["window_us"], row["gap_reason"], row["in_flight"]) == (None, "first_read", 4)
    assert "reads" not in row


def test_the_second_row_covers_the_time_between(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    fake.show_disks(disk_line("nvme0n1", reads=1000, read_ms=70))
    rows_of(source)
    (row,) = _next(fake, source, disk_line("nvme0n1", reads=1010, read_ms=90, weighted_ms=50))
    assert (row["window_us"], row["reads"]) == (_TICK, 10)
    assert row["read_await_mean_us"] == 2000.0
    assert row["queue_mean"] == 0.5
    assert row.get("gap_reason") is None
    assert row["mono_us"] == fake.clock.mono_us


def test_every_column_it_writes_is_in_the_table(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    fake.write("sys/block/nvme0n1/inflight", "1 2\n")
    names = {column.name for column in table("block_device").columns}
    for reads in (1, 2):
        for row in _next(fake, source, disk_line("nvme0n1", reads=reads)):
            assert set(row) <= names
    assert {"device"} | set(fake.devices()["nvme0n1"]) <= {
        column.name for column in table("device").columns
    }


def test_a_step_of_the_wall_clock_does_not_touch_windows(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    fake.show_disks(disk_line("sda"))
    rows_of(source)
    fake.clock.wall_offset_us -= 3600 * SECOND
    (row,) = _next(fake, source, disk_line("sda", reads=1))
    assert (row["window_us"], row["reads"]) == (_TICK, 1)


def test_two_polls_at_the_same_moment_give_no_rates(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    _next(fake, source, disk_line("sda"))
    (row,) = _next(fake, source, disk_line("sda", reads=1), us=0)
    assert row["gap_reason"] == "no_time"


def test_a_pause_longer_than_a_column_can_hold_is_a_gap(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    _next(fake, source, disk_line("sda"))
    (row,) = _next(fake, source, disk_line("sda", reads=1), us=2**32)
    assert row["gap_reason"] == "no_time"
    (row,) = _next(fake, source, disk_line("sda", reads=3), us=2**32 - 1)
    assert (row["reads"], row["window_us"]) == (2, 2**32 - 1)


def test_a_device_that_appears_gets_no_since_boot_rates(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    _next(fake, source, disk_line("sda"))
    rows = _next(fake, source, disk_line("sda"), disk_line("sdb", "8 16", reads=999))
    assert [row.get("gap_reason") for row in rows] == [None, "first_read"]


def test_a_device_that_goes_ends_its_series_once_with_a_reason(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    _next(fake, source, disk_line("sda"), disk_line("sdb", "8 16"))
    sdb = fake.devices()["sdb"]["device"]
    rows = _next(fake, source, disk_line("sda"))
    assert [(row["gap_reason"], row["window_us"]) for row in rows if row["device"] == sdb] == [
        ("gone", None)
    ]
    assert all(row["device"] != sdb for row in _next(fake, source, disk_line("sda")))


def test_the_only_disk_of_a_machine_that_goes_ends_its_series_too(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    _next(fake, source, disk_line("sda"))
    (row,) = _next(fake, source)
    assert row["gap_reason"] == "gone"
    assert refusal_of(source).state == State.RESTRICTED


def test_a_counter_that_fell_is_a_gap_and_the_next_window_counts_again(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    for reads, expected in ((5000, "first_read"), (4000, "counter_fell")):
        (row,) = _next(fake, source, disk_line("dm-0", "253 0", reads=reads))
        assert row["gap_reason"] == expected
        assert "reads" not in row
    (row,) = _next(fake, source, disk_line("dm-0", "253 0", reads=4007))
    assert row["reads"] == 7


def test_a_name_used_again_by_another_volume_is_told_by_what_it_is(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    fake.write("sys/block/dm-0/dm/name", "vg0-cache\n")
    fake.write("sys/block/dm-0/dm/uuid", "LVM-a\n")
    _next(fake, source, disk_line("dm-0", "253 0", reads=5000))
    fake.write("sys/block/dm-0/dm/uuid", "LVM-b\n")
    old = fake.devices()["vg0-cache"]["device"]
    rows = _next(fake, source, disk_line("dm-0", "253 0", reads=10))
    new = fake.devices()["vg0-cache"]["device"]
    assert old != new
    assert {row["device"]: row["gap_reason"] for row in rows} == {
        old: "gone",
        new: "identity_changed",
    }


def test_another_device_number_under_the_same_name_is_another_device(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    _next(fake, source, disk_line("sda", "8 0", reads=10))
    (row,) = _next(fake, source, disk_line("sda", "8 64", reads=20))
    assert row["gap_reason"] == "identity_changed"


def test_an_implausible_time_is_a_gap_that_is_counted_and_told(fake: FakeMachine) -> None:
    (fake.sys / "block").mkdir()
    source = BlockDevice(fake.machine)
    _next(fake, source, disk_line("sda", busy_ms=1000))
    fake.show_disks(disk_line("sda", busy_ms=500))
    fake.clock.advance(_TICK)
    reading = source.read()
    assert isinstance(reading, Reading)
    (row,) = reading.rows["block_device"]
    assert isinstance(row, dict)
    assert row["gap_reason"] == "implausible"
    assert (reading.rejects, reading.reason) == (
        1,
        "1 lines of /proc/diskstats refused or implausible",
    )


def test_a_broken_line_is_counted_and_its_disk_goes_on_over_the_hole(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    _next(fake, source, disk_line("sda", reads=10), disk_line("sdb", "8 16"))
    fake.show_disks(disk_line("sda", reads=20).replace(" 20 ", " x "), disk_line("sdb", "8 16"))
    fake.clock.advance(_TICK)
    reading = source.read()
    assert isinstance(reading, Reading)
    assert (reading.rejects, len(reading.rows["block_device"])) == (1, 1)
    rows = _next(fake, source, disk_line("sda", reads=30), disk_line("sdb", "8 16"))
    assert (rows[0]["reads"], rows[0]["window_us"]) == (20, 2 * _TICK)


def test_reads_and_writes_in_flight_come_from_sysfs(fake: FakeMachine) -> None:
    fake.write("sys/block/sda/inflight", "       3        4\n")
    fake.show_disks(disk_line("sda", in_flight=7))
    row = row_of(BlockDevice(fake.machine))
    assert (row["in_flight"], row["in_flight_read"], row["in_flight_write"]) == (7, 3, 4)


def test_without_sysfs_inflight_the_split_is_unknown(fake: FakeMachine) -> None:
    fake.show_disks(disk_line("sda", in_flight=7))
    row = row_of(BlockDevice(fake.machine))
    assert (row["in_flight"], row["in_flight_read"], row["in_flight_write"]) == (7, None, None)


def test_a_disk_whose_counting_is_switched_off_is_disabled_and_not_idle(fake: FakeMachine) -> None:
    fake.write("sys/block/sda/queue/iostats", "0\n")
    source = BlockDevice(fake.machine)
    lines = disk_line("sda", reads=7), disk_line("sdb", "8 16")
    _next(fake, source, *lines)
    fake.clock.advance(_TICK)
    reading = source.read()
    assert isinstance(reading, Reading)
    gaps = [row.get("gap_reason") for row in reading.rows["block_device"] if isinstance(row, dict)]
    assert gaps == ["disabled", None]
    assert reading.reason == "queue/iostats is 0 on sda"


def test_a_machine_that_counts_nothing_is_disabled(fake: FakeMachine) -> None:
    fake.write("sys/block/sda/queue/iostats", "0\n")
    source = BlockDevice(fake.machine)
    _next(fake, source, disk_line("sda", reads=7))
    fake.clock.advance(_TICK)
    assert refusal_of(source).state == State.DISABLED


def test_counters_that_move_although_they_should_not_are_believed(fake: FakeMachine) -> None:
    fake.write("sys/block/sda/queue/iostats", "0\n")
    source = BlockDevice(fake.machine)
    _next(fake, source, disk_line("sda", reads=7))
    (row,) = _next(fake, source, disk_line("sda", reads=8))
    assert row["reads"] == 1


def test_a_strange_line_is_logged_once(fake: FakeMachine, caplog: pytest.LogCaptureFixture) -> None:
    source = BlockDevice(fake.machine)
    rows: list[Row] = []
    with caplog.at_level(logging.WARNING):
        for reads in range(3):
            strange = disk_line("sda", fields=14, reads=reads)
            rows.extend(_next(fake, source, strange, disk_line("sdb", "8 16")))
    assert [(row["reads"], row["discards"]) for row in rows[2::2]] == [(1, None), (1, None)]
    assert [record.getMessage() for record in caplog.records if "14" in record.getMessage()] == [
        "diskstats: lines with 14 statistics, reading the known ones"
    ]


def test_a_container_without_sysfs_is_partial(fake: FakeMachine) -> None:
    fake.show_disks(disk_line("sda"))
    reading = BlockDevice(fake.machine).read()
    assert isinstance(reading, Reading)
    assert reading.reason == "no /sys/block here: disks are known by name only"


def test_hidden_statistics_are_restricted(fake: FakeMachine) -> None:
    fake.write("proc/diskstats", "")
    assert refusal_of(BlockDevice(fake.machine)).state == State.RESTRICTED


def test_a_machine_without_block_devices_is_not_applicable(fake: FakeMachine) -> None:
    fake.write("proc/diskstats", "")
    (fake.sys / "block").mkdir()
    assert refusal_of(BlockDevice(fake.machine)).state == State.NOT_APPLICABLE


def test_a_machine_of_virtual_disks_only_is_not_applicable(fake: FakeMachine) -> None:
    fake.show_disks(
        disk_line("loop0", "7 0"), disk_line("zram0", "253 0"), disk_line("sr0", "11 0")
    )
    assert refusal_of(BlockDevice(fake.machine)).state == State.NOT_APPLICABLE
    names = BlockDevice(fake.machine, include_virtual=True)
    assert len(rows_of(names)) == 3


def test_no_diskstats_is_unsupported(fake: FakeMachine) -> None:
    refusal = refusal_of(BlockDevice(fake.machine))
    assert refusal == NoData(State.UNSUPPORTED, "/proc/diskstats: no such file or directory")


def test_a_file_in_a_layout_we_do_not_know_is_unsupported(fake: FakeMachine) -> None:
    fake.write("proc/diskstats", "3 0 39082680 hda 1 2 3 4 5 6 7 8 9 10 11\n")
    assert refusal_of(BlockDevice(fake.machine)).state == State.UNSUPPORTED


def test_no_permission_is_restricted_and_the_next_poll_tries_again(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    fake.show_disks(disk_line("sda"))
    source = BlockDevice(fake.machine)
    with monkeypatch.context() as context:
        context.setattr(os, "open", refuse)
        assert refusal_of(source) == NoData(State.RESTRICTED, "/proc/diskstats: permission denied")
    assert len(rows_of(source)) == 1


def test_closing_gives_back_every_descriptor(fake: FakeMachine) -> None:
    before = count_descriptors()
    fake.write("sys/block/sda/inflight", "0 0\n")
    fake.show_disks(disk_line("sda"))
    source = BlockDevice(fake.machine)
    rows_of(source)
    assert count_descriptors() == before + 2
    source.close()
    assert count_descriptors() == before


_lines = st.lists(
    st.builds(
        lambda name, reads, busy: disk_line(name, reads=reads, busy_ms=busy),
        st.sampled_from(["nvme0n1", "nvme0c0n1", "nvme0c1n1", "sda", "dm-0", "sda1"]),
        st.integers(0, 2**40),
        st.integers(0, 2**32 - 1),
    ),
    max_size=6,
)


@given(st.lists(_lines, min_size=1, max_size=5))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_lines_do_no_figure_is_negative(
    tmp_path: Path, polls: list[list[str]]
) -> None:
    fake = FakeMachine(tmp_path)
    source = BlockDevice(fake.machine)
    for lines in polls:
        fake.show_disks(*lines)
        fake.clock.advance(_TICK)
        reading = source.read()
        if isinstance(reading, NoData):
            continue
        for row in reading.rows["block_device"]:
            assert isinstance(row, dict)
            figures = [v for v in row.values() if isinstance(v, int | float)]
            assert all(figure >= 0 for figure in figures)
    source.close()
