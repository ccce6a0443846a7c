"""Recordings of other projects' machines, read by our sources."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from collector.block_device import BlockDevice
from collector.disk_rates import measure, subtract
from collector.diskstats import FIELDS, Statistics, parse_listing, parse_statistics
from collector.host_pressure import HostPressure
from collector.source import NoData
from tests.collector.fake_machine import FakeMachine, disk_line, row_of, rows_of

_BUSY_MS = 9


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def _copy_sys(corpus: Path, fake: FakeMachine) -> None:
    """Copy the sysfs recording and make the links that its list names."""
    unpacked = corpus / "host/node_exporter/sys-unpacked"
    shutil.copytree(unpacked / "sys", fake.sys, dirs_exist_ok=True)
    for line in (unpacked / "SYMLINKS.txt").read_text(encoding="utf-8").splitlines():
        link, _, target = line.partition(" -> ")
        place = fake.sys.parent / link
        if target and not place.exists() and place.parent.is_dir():
            place.symlink_to(target)


def test_lines_of_every_length_are_read_and_the_2_4_layout_is_refused(corpus: Path) -> None:
    text = (corpus / "host/retyped/diskstats-lines.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    assert len(records) == 6
    outcomes: dict[str, int | None] = {}
    for record in records:
        listing = parse_listing(record["line"])
        if listing.rejects:
            outcomes[record["variant"]] = None
            continue
        (line,) = listing.lines
        statistics = parse_statistics(line.statistics)
        assert statistics is not None
        known = sum(value is not None for value in statistics)
        outcomes[f"{line.key.name} {record['variant']}"] = known
    assert outcomes == {
        "kernel doc 2.4 /proc/partitions style": None,
        "hda1 2.6.0-2.6.24 partition, 7 fields": 4,
        "hda 14 fields": 11,
        "loop0 18 fields (4.18+)": 15,
        "nvme0n1 20 fields (5.5+)": 17,
        "sda 20 fields (5.5+)": 17,
    }


def _series(corpus: Path, number: int) -> dict[str, object]:
    text = (corpus / "host/retyped/series.json").read_text(encoding="utf-8")
    series = json.loads(text)[number]
    assert isinstance(series, dict)
    return series


def _busy(value: object) -> Statistics:
    fields: list[int | None] = [0] * FIELDS
    fields[_BUSY_MS] = int(str(value))
    return tuple(fields)


def test_an_nvme_polled_each_second_was_busy_80_to_93_per_cent(corpus: Path) -> None:
    values = _series(corpus, 0)["values"]
    assert isinstance(values, list)
    ratios = []
    for before, now in pairwise(values):
        deltas = subtract(_busy(before), _busy(now), 1_000_000)
        assert isinstance(deltas, tuple)
        ratios.append(measure(deltas, 1_000_000)["busy_ratio"])
    # the differences by hand: 11,022,152 - 11,021,360 = 792 and so on
    assert ratios == [0.792, 0.856, 0.856, 0.912, 0.92, 0.932]


def test_a_disk_whose_busy_time_is_far_above_its_partitions_is_one_disk(
    corpus: Path, fake: FakeMachine
) -> None:
    series = _series(corpus, 1)
    disk, part = series["disk"], series["part"]
    assert isinstance(disk, list)
    assert isinstance(part, list)
    fake.show_disks(
        *(
            disk_line(name, read_ms=v[0], write_ms=v[1], busy_ms=v[3], weighted_ms=v[4])
            for name, v in (("nvme0n1", disk), ("nvme0n1p1", part))
        )
    )
    row_of(BlockDevice(fake.machine))
    assert list(fake.devices()) == ["nvme0n1"]


def test_four_states_of_a_machine_give_whole_disks_gaps_and_farewells(
    corpus: Path, fake: FakeMachine
) -> None:
    source = BlockDevice(fake.machine)
    seconds = 0.0
    gaps: list[dict[str, object]] = []
    for state in range(1, 5):
        root = corpus / f"host/sysstat/root{state}"
        shutil.rmtree(fake.sys)
        shutil.copytree(root / "sys", fake.sys)
        fake.write("proc/diskstats", (root / "proc/diskstats").read_text(encoding="ascii"))
        uptime = float((root / "proc/uptime").read_text(encoding="ascii").split()[0])
        fake.clock.advance(round((uptime - seconds) * 1_000_000))
        seconds = uptime
        rows = rows_of(source)
        names = {row["device"]: name for name, row in fake.devices().items()}
        gaps.append({names[row["device"]]: row.get("gap_reason") for row in rows})
    assert set(gaps[0]) == {"sda", "sdb", "sdc", "sdd", "sde", "sdq", "sdr", "sds", "dm-2"}
    assert [name for name, gap in gaps[1].items() if gap] == ["dm-2"]
    assert gaps[1]["dm-2"] == "gone"
    assert {name: gap for name, gap in gaps[2].items() if gap} == {"sdb": "counter_fell"}
    assert {name: gap for name, gap in gaps[3].items() if gap} == {
        "sda": "counter_fell",
        "sds": "counter_fell",
        "sdb": "gone",
        "sdq": "gone",
        "sdf": "first_read",
        "sdg": "first_read",
    }


def test_four_controllers_of_one_subsystem_are_one_disk(corpus: Path, fake: FakeMachine) -> None:
    _copy_sys(corpus, fake)
    paths = [f"nvme0c{controller}n1" for controller in range(4)]
    source = BlockDevice(fake.machine)
    reads = []
    for poll in (0, 1):
        fake.show_disks(
            disk_line("nvme0n1"),
            *(disk_line(path, "0 0", reads=poll * 25) for path in paths),
        )
        fake.clock.advance(1_000_000)
        reads.append(row_of(source).get("reads"))
    assert reads == [None, 100]
    assert list(fake.devices()) == ["nvme0n1"]


def test_partitions_of_the_sysfs_recording_are_known_and_its_volumes_named(
    corpus: Path, fake: FakeMachine
) -> None:
    _copy_sys(corpus, fake)
    place = "devices/pci0000:00/0000:00:02.1/0000:01:00.0/nvme/nvme0/nvme0n1"
    for name in ("nvme0n1", "nvme0n1/nvme0n1p1", "nvme0n1/nvme0n1p2"):
        link = fake.sys / "class/block" / Path(name).name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(fake.sys / place.removesuffix("/nvme0n1") / name)
    (fake.sys / "block/nvme0n1").symlink_to(fake.sys / place)
    names = ("nvme0n1", "nvme0n1p1", "nvme0n1p2", "dm-7", "sda")
    fake.show_disks(*(disk_line(name, f"1 {number}") for number, name in enumerate(names)))
    rows_of(BlockDevice(fake.machine))
    devices = fake.devices()
    assert set(devices) == {"nvme0n1", "vg0-root", "sda"}
    nvme = devices["nvme0n1"]
    assert (nvme["model"], nvme["pci_address"]) == ("CT2000P3SSD8", "0000:01:00.0")
    assert (nvme["queue_requests"], nvme["scheduler"], nvme["block_bytes"]) == (1023, "none", 512)
    assert nvme["numa_node"] is None  # the recording says -1
    serial = (fake.sys / place).parent.joinpath("serial").read_text(encoding="utf-8").strip()
    assert len(serial) == 12
    assert serial not in repr(fake.store.stored)


def test_pressure_and_memory_of_a_recording(corpus: Path, fake: FakeMachine) -> None:
    shutil.copytree(corpus / "host/node_exporter/proc", fake.proc, dirs_exist_ok=True)
    source = HostPressure(fake.machine)
    row = row_of(source)
    assert row["memory_total_bytes"] == 3_742_148 * 1024
    assert row["mlocked_bytes"] == 32 * 1024
    assert row["reason"] == "not in meminfo: memory_available_bytes"  # a kernel before 3.14
    for resource, text in {
        "cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=14137781\n",
        "io": "some avg10=0.18 avg60=0.34 avg300=0.10 total=160386802\n"
        "full avg10=0.18 avg60=0.34 avg300=0.10 total=159479614\n",
        "irq": "full avg10=0.00 avg60=0.00 avg300=0.00 total=18494\n",
    }.items():
        fake.write(f"proc/pressure/{resource}", text)
    fake.clock.advance(1_000_000)
    row = row_of(source)
    assert row["cpu_some_ratio"] == pytest.approx(0.101)
    assert (row["io_some_ratio"], row["io_full_ratio"]) == (0.5, 0.25)
    assert row["irq_full_ratio"] == pytest.approx(0.01)
    assert row["memory_some_ratio"] == 0.0


def test_a_recording_without_disk_statistics_offers_none(corpus: Path, fake: FakeMachine) -> None:
    shutil.copytree(corpus / "host/node_exporter/proc", fake.proc, dirs_exist_ok=True)
    assert isinstance(BlockDevice(fake.machine).read(), NoData)
