from __future__ import annotations

from pathlib import Path

import pytest

from collector.block_device import BlockDevice
from collector.disk_facts import hash_serial, parse_scheduler
from collector.disk_inventory import find_disks
from collector.diskstats import Key
from collector.source import Row
from stallscope.schema import table
from tests.collector.fake_machine import FakeMachine, disk_line, row_of, rows_of

_TICK = 100_000


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def _names(fake: FakeMachine, *names: str, include_virtual: bool = False) -> list[str]:
    keys = [Key("1", str(number), name) for number, name in enumerate(names)]
    disks = find_disks(keys, fake.sys, include_virtual=include_virtual)
    return [disk.kernel_name for disk in disks]


def _total(rows: list[Row], fake: FakeMachine, column: str) -> int:
    counted = {row["device"] for row in fake.devices().values() if row["counted"]}
    return sum(int(str(row[column])) for row in rows if row["device"] in counted)


def _deltas(fake: FakeMachine, before: list[str], now: list[str]) -> list[Row]:
    source = BlockDevice(fake.machine)
    fake.show_disks(*before)
    rows_of(source)
    fake.show_disks(*now)
    fake.clock.advance(_TICK)
    return list(rows_of(source))


def test_partitions_are_told_by_sysfs_whatever_their_name(fake: FakeMachine) -> None:
    for name in ("nvme0n1p1", "mmcblk0p1", "odd"):
        fake.write(f"sys/class/block/{name}/partition", "1\n")
    for name in ("nvme0n1", "mmcblk0", "xvda1"):  # xvda1 is a whole disk on some clouds
        fake.write(f"sys/class/block/{name}/size", "8\n")
    listed = _names(fake, "nvme0n1", "nvme0n1p1", "mmcblk0", "mmcblk0p1", "odd", "xvda1")
    assert listed == ["nvme0n1", "mmcblk0", "xvda1"]


def test_without_sysfs_names_decide_and_a_last_digit_alone_does_not(fake: FakeMachine) -> None:
    listed = _names(
        fake, "nvme0n1", "nvme0n1p1", "mmcblk0", "mmcblk0p2", "sda", "sda12", "vda1", "md0",
        "md0p1", "dm-3", "xvda1", "nvme12n34",
    )  # fmt: skip
    assert listed == ["nvme0n1", "mmcblk0", "sda", "md0", "dm-3", "nvme12n34"]


def test_virtual_disks_are_off_unless_asked_for(fake: FakeMachine) -> None:
    virtual = ("loop0", "ram1", "zram0", "sr0", "nbd3")
    assert _names(fake, *virtual, "sda") == ["sda"]
    assert _names(fake, *virtual, "sda", include_virtual=True) == [*virtual, "sda"]


def test_the_total_of_a_disk_with_nine_partitions_is_the_disk(fake: FakeMachine) -> None:
    parts = [f"nvme0n1p{number}" for number in range(1, 10)]
    for name in parts:
        fake.write(f"sys/class/block/{name}/partition", "1\n")
    zeros = [disk_line(name) for name in ("nvme0n1", *parts)]
    now = [
        disk_line("nvme0n1", reads=59_871),
        *(disk_line(name, reads=6_644) for name in parts),  # 59,796 together
    ]
    assert _total(_deltas(fake, zeros, now), fake, "reads") == 59_871


def test_an_old_kernel_counts_a_multipath_namespace_on_its_path_only(fake: FakeMachine) -> None:
    # 15 statistics, device number 0:0, no sysfs entry; the head is all zero (netdata#5744)
    path = " 0 0 nvme7c2n1 {} 0 12000 40 900 3 64000 70 0 300 110 0 0 0 0"
    head = " 259 4 nvme7n1" + " 0" * 15
    (row,) = _deltas(fake, [path.format(500), head], [path.format(560), head])
    assert (row["reads"], row["read_bytes"]) == (60, 0)
    assert list(fake.devices()) == ["nvme7n1"]


def test_two_live_paths_are_one_disk_with_their_sum(fake: FakeMachine) -> None:
    head = disk_line("nvme9n1", "259 9")
    before = [head, disk_line("nvme9c9n1", "0 0"), disk_line("nvme9c33n1", "0 0")]
    now = [
        head,
        disk_line("nvme9c9n1", "0 0", reads=300, read_ms=30, in_flight=1),
        disk_line("nvme9c33n1", "0 0", reads=200, read_ms=70, in_flight=2),
    ]
    (row,) = _deltas(fake, before, now)
    assert (row["reads"], row["in_flight"]) == (500, 3)
    assert row["read_await_mean_us"] == 200.0  # 100 ms over 500 reads


def test_head_and_path_that_both_count_are_one_figure(fake: FakeMachine) -> None:
    before = [disk_line("nvme0n1", reads=5), disk_line("nvme0c0n1", "0 0", reads=5)]
    now = [disk_line("nvme0n1", reads=1005), disk_line("nvme0c0n1", "0 0", reads=1005)]
    rows = _deltas(fake, before, now)
    assert _total(rows, fake, "reads") == 1000


def test_a_head_that_once_moved_stays_the_choice_while_it_rests(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    figures = []
    for head, path in ((0, 0), (7, 7), (7, 50)):
        fake.show_disks(disk_line("nvme0n1", reads=head), disk_line("nvme0c1n1", "0 0", reads=path))
        fake.clock.advance(_TICK)
        (row,) = rows_of(source)
        figures.append(row.get("reads"))
    assert figures == [None, 7, 0]


def test_a_head_that_was_reset_is_a_gap_and_not_left_for_its_paths(fake: FakeMachine) -> None:
    before = [disk_line("nvme0n1", reads=70), disk_line("nvme0c1n1", "0 0", reads=70)]
    now = [disk_line("nvme0n1"), disk_line("nvme0c1n1", "0 0", reads=90)]
    (row,) = _deltas(fake, before, now)
    assert row["gap_reason"] == "counter_fell"


def test_a_path_that_joins_makes_a_gap_and_not_a_jump(fake: FakeMachine) -> None:
    source = BlockDevice(fake.machine)
    head = disk_line("nvme0n1")
    path = disk_line("nvme0c0n1", "0 0", reads=10)
    fake.show_disks(head, path)
    rows_of(source)
    gaps = []
    for reads in (900, 907):
        fake.show_disks(head, path, disk_line("nvme0c1n1", "0 0", reads=reads))
        fake.clock.advance(_TICK)
        (row,) = rows_of(source)
        gaps.append((row.get("gap_reason"), row.get("reads")))
    assert gaps == [("first_read", None), (None, 7)]


def test_paths_without_a_line_of_their_head_are_the_namespace(fake: FakeMachine) -> None:
    fake.show_disks(disk_line("nvme3c0n2", "0 0"), disk_line("nvme3c1n2", "0 0"))
    row_of(BlockDevice(fake.machine))
    assert list(fake.devices()) == ["nvme3n2"]


def test_a_volume_is_named_by_device_mapper_and_not_counted_beside_its_disk(
    fake: FakeMachine,
) -> None:
    fake.write("sys/block/dm-0/dm/name", "vg0-offload\n")
    fake.write("sys/devices/virtual/block/nvme0n1/nvme0n1p1/partition", "1\n")
    fake.link("sys/class/block/nvme0n1p1", "sys/devices/virtual/block/nvme0n1/nvme0n1p1")
    fake.link("sys/block/dm-0/slaves/nvme0n1p1", "sys/class/block/nvme0n1p1")
    zeros = [disk_line("nvme0n1"), disk_line("nvme0n1p1"), disk_line("dm-0", "253 0")]
    now = [
        disk_line("nvme0n1", reads=100),
        disk_line("nvme0n1p1", reads=100),
        disk_line("dm-0", "253 0", reads=100),
    ]
    rows = _deltas(fake, zeros, now)
    assert [row["reads"] for row in rows] == [100, 100]
    assert _total(rows, fake, "reads") == 100
    volume = fake.devices()["vg0-offload"]
    assert (volume["role"], volume["counted"]) == ("dm", False)


def test_a_volume_whose_disk_is_not_reported_is_counted_itself(fake: FakeMachine) -> None:
    fake.link("sys/block/dm-0/slaves/loop0", "sys/class/block/loop0")
    fake.show_disks(disk_line("loop0", "7 0"), disk_line("dm-0", "253 0"))
    row_of(BlockDevice(fake.machine))
    assert fake.devices()["dm-0"]["counted"] is True


def test_an_array_that_never_looks_busy_is_left_to_its_members(fake: FakeMachine) -> None:
    for member in ("nvme0n1", "nvme1n1"):
        fake.link(f"sys/block/md0/slaves/{member}", f"sys/block/{member}")
    fake.write("sys/block/md0/md/level", "raid0\n")
    fake.write("sys/block/md0/queue/iostats", "0\n")  # and yet counted, on older kernels
    names = (("nvme0n1", "259 0"), ("nvme1n1", "259 1"), ("md0", "9 0"))
    zeros = [disk_line(name, number) for name, number in names]
    now = [
        disk_line("nvme0n1", "259 0", reads=5, busy_ms=90),
        disk_line("nvme1n1", "259 1", reads=5, busy_ms=90),
        disk_line("md0", "9 0", reads=10),
    ]
    rows = _deltas(fake, zeros, now)
    assert [row["busy_ratio"] for row in rows] == [0.9, 0.9, 0.0]
    assert [row.get("gap_reason") for row in rows] == [None] * 3
    assert fake.devices()["md0"]["role"] == "md"
    assert fake.devices()["md0"]["counted"] is False


def test_an_idle_array_is_idle_whatever_its_iostats_say(fake: FakeMachine) -> None:
    fake.link("sys/block/md0/slaves/sda", "sys/block/sda")
    fake.write("sys/block/md0/queue/iostats", "0\n")
    lines = [disk_line("sda", "8 0"), disk_line("md0", "9 0")]
    assert [row.get("gap_reason") for row in _deltas(fake, lines, lines)] == [None, None]


def _nvme(fake: FakeMachine, transport: str = "pcie") -> None:
    place = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/nvme/nvme0"
    for name, text in {
        "model": "Example SSD 3T8      ", "serial": "S123   ", "firmware_rev": "FW1 ",
        "transport": transport, "numa_node": "1", "nvme0n1/diskseq": "9",
        "nvme0n1/queue/nr_requests": "1023", "nvme0n1/queue/scheduler": "[none] mq-deadline kyber",
        "nvme0n1/queue/logical_block_size": "4096", "nvme0n1/queue/iostats": "1",
    }.items():  # fmt: skip
        fake.write(f"{place}/{name}", f"{text}\n")
    fake.link("sys/block/nvme0n1", f"{place}/nvme0n1")
    fake.link(f"{place}/nvme0n1/device", place)


def test_an_nvme_is_described_as_sysfs_describes_it(fake: FakeMachine) -> None:
    _nvme(fake)
    fake.show_disks(disk_line("nvme0n1"))
    row_of(BlockDevice(fake.machine))
    facts = dict(fake.devices()["nvme0n1"])
    for column in ("wall_us", "device"):
        del facts[column]
    assert facts == {
        "kind": "disk",
        "name": "nvme0n1",
        "role": "nvme",
        "model": "Example SSD 3T8",
        # printf S123 | sha256sum
        "serial_hash": "ab272e1988323ff4",
        "firmware": "FW1",
        "pci_address": "0000:3b:00.0",
        "numa_node": 1,
        "queue_requests": 1023,
        "scheduler": "none",
        "block_bytes": 4096,
        "counted": True,
        "gpu_index": None,
        "driver": None,
    }


def test_a_drive_over_a_fabric_has_no_pci_address(fake: FakeMachine) -> None:
    _nvme(fake, transport="tcp")
    fake.show_disks(disk_line("nvme0n1"))
    row_of(BlockDevice(fake.machine))
    assert fake.devices()["nvme0n1"]["pci_address"] is None


def test_a_dual_port_drive_is_described_by_its_one_controller(fake: FakeMachine) -> None:
    place = "sys/devices/pci0000:00/10000:01:00.0/nvme/nvme4"
    fake.write(f"{place}/transport", "pcie\n")
    fake.write(f"{place}/numa_node", "-1\n")
    subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys4"
    fake.write(f"{subsystem}/serial", "S9\n")
    fake.write(f"{subsystem}/firmware_rev", "FW9\n")
    fake.write(f"{subsystem}/nvme4n1/size", "8\n")
    fake.link(f"{subsystem}/nvme4", place)
    fake.link(f"{subsystem}/nvme4n1/device", subsystem)
    fake.link("sys/block/nvme4n1", f"{subsystem}/nvme4n1")
    fake.show_disks(disk_line("nvme4n1"), disk_line("nvme4c4n1", "0 0"))
    row_of(BlockDevice(fake.machine))
    facts = fake.devices()["nvme4n1"]
    assert facts["pci_address"] == "10000:01:00.0"  # a VMD domain has five digits
    assert facts["numa_node"] is None  # -1 is unknown, not node 0
    assert facts["firmware"] == "FW9"


def test_without_sysfs_a_disk_is_known_by_name_alone(fake: FakeMachine) -> None:
    fake.show_disks(disk_line("nvme0n1"))
    row_of(BlockDevice(fake.machine))
    facts = fake.devices()["nvme0n1"]
    known = {name for name, value in facts.items() if value is not None}
    assert known == {"wall_us", "device", "kind", "name", "role", "counted"}
    assert known <= {column.name for column in table("device").columns}


def test_a_serial_is_stored_as_a_short_hash_only() -> None:
    assert hash_serial("S123") == "ab272e1988323ff4"
    assert hash_serial(None) is None


@pytest.mark.parametrize(
    ("text", "scheduler"),
    [("[none] mq-deadline", "none"), ("none [kyber] bfq", "kyber"), ("none", "none"), (None, None)],
)
def test_the_scheduler_in_use_stands_in_brackets(text: str | None, scheduler: str | None) -> None:
    assert parse_scheduler(text) == scheduler


def test_a_change_of_facts_is_seen_within_a_minute_and_keeps_the_id(fake: FakeMachine) -> None:
    _nvme(fake)
    source = BlockDevice(fake.machine)
    fake.show_disks(disk_line("nvme0n1"))
    first = row_of(source)["device"]
    place = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/nvme/nvme0"
    fake.write(f"{place}/nvme0n1/queue/scheduler", "none [kyber]\n")
    fake.clock.advance(61_000_000)
    row = row_of(source)
    assert (row["device"], row.get("gap_reason")) == (first, None)
    assert fake.devices()["nvme0n1"]["scheduler"] == "kyber"
