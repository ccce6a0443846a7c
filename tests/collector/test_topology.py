from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from collector.engine_process import EngineProcess
from collector.names import StoredNames
from collector.nvml.messages import GpuFacts
from collector.source import Machine, NoData, Reading, Row, State
from collector.topology import Topology
from collector.topology_look import KnownGpu, combine_knowledge, parse_virtualised, read_look
from stallscope.schema import arrow_schema
from tests.collector.fake_buses import (
    put_cpuinfo,
    put_device,
    put_nodes,
    put_placement,
    put_switched_pair,
)
from tests.collector.fake_machine import FakeMachine, refusal_of
from tests.collector.stand_ins import SECOND, ManualClock, MemoryStore
from tests.conftest import REPO

_RECORDED = REPO / "tests/captures/machines/linux-6.8__3-gpu-switch__numa__vllm"


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


@dataclass
class Others:
    """What other sources would say."""

    processes: Sequence[tuple[int, str]] = ()
    gpus: Iterable[GpuFacts] = ()
    pids: Mapping[str, Sequence[int]] = field(default_factory=dict)


@pytest.fixture
def others() -> Others:
    return Others()


@pytest.fixture
def source(fake: FakeMachine, others: Others) -> Topology:
    return Topology(
        fake.machine,
        engine_processes=lambda: others.processes,
        gpus=lambda: others.gpus,
        gpu_processes=lambda: others.pids,
    )


def _gpu(index: int, uuid: str, address: str | None, parent: str = "") -> GpuFacts:
    return GpuFacts(index, uuid, "Fictional", address, "580.1", parent=parent)


def _read(source: Topology) -> dict[str, Sequence[Row]]:
    reading = source.read()
    assert isinstance(reading, Reading), reading
    rows: dict[str, Sequence[Row]] = {}
    for table, own in reading.rows.items():
        assert isinstance(own, Sequence)
        rows[table] = own
    return rows


def _by_address(rows: Iterable[Row]) -> dict[str, Row]:
    return {str(row["address"]): row for row in rows}


def test_a_look_is_a_row_per_node_device_and_process(
    fake: FakeMachine, source: Topology, others: Others
) -> None:
    put_switched_pair(fake)
    put_placement(fake, 4801, "16-31", "0-1")
    others.processes = [(4801, "VLLM::Worker_TP")]
    others.gpus = [_gpu(0, "GPU-a", "0000:43:00.0")]
    others.pids = {"GPU-a": [4801, 99]}
    rows = _read(source)
    nodes = _by_address(rows["topology"])
    assert list(nodes)[:2] == ["node0", "node1"]
    assert len(nodes) == 2 + 10 + 1
    parents = {address: row.get("parent") for address, row in nodes.items()}
    assert parents["node0"] is None
    assert parents["0000:40:01.0"] == "node0"
    assert parents["0000:c0:03.1"] == "node1"
    assert parents["0000:43:00.0"] == "0000:42:08.0"
    assert parents["pid 4801"] == "0000:43:00.0"
    assert nodes["0000:43:00.0"] == {
        "wall_us": fake.clock.now().wall_us,
        "address": "0000:43:00.0",
        "parent": "0000:42:08.0",
        "kind": "gpu",
        "numa_node": 0,
        "link_generation": 4,
        "link_width": 16,
        "max_link_generation": 4,
        "max_link_width": 16,
        "name": "GPU-a",
        "virtualised": False,
    }
    process = nodes["pid 4801"]
    assert (process["name"], process["numa_node"]) == ("VLLM::Worker_TP", 1)
    assert (process["cpus"], process["memory_nodes"]) == ("16-31", "0-1")
    rules = [row["rule"] for row in rows["topology_finding"]]
    assert sorted(map(str, rules)) == ["numa_mismatch", "shared_uplink"]


def test_all_rows_fit_their_tables_and_share_their_time(
    fake: FakeMachine, source: Topology
) -> None:
    put_switched_pair(fake)
    rows = _read(source)
    assert rows.keys() == set(source.tables)
    for table, own in rows.items():
        pa.Table.from_pylist(list(own), schema=arrow_schema(table)).validate(full=True)
    assert len({row["wall_us"] for own in rows.values() for row in own}) == 1


def test_rows_are_written_again_only_when_something_changed(
    fake: FakeMachine, source: Topology
) -> None:
    put_switched_pair(fake)
    assert _read(source)
    fake.clock.advance(60 * SECOND)
    assert _read(source) == {}
    width = "sys/bus/pci/devices/0000:43:00.0/current_link_width"
    fake.write(width, "8\n")
    fake.clock.advance(59 * SECOND)
    assert _read(source) == {}, "it is looked at every minute"
    fake.clock.advance(1 * SECOND)
    again = _read(source)
    assert _by_address(again["topology"])["0000:43:00.0"]["link_width"] == 8
    assert len(again["topology"]) == 2 + 10, "a whole look, not the difference"
    assert again["topology"][0]["wall_us"] == fake.clock.now().wall_us


def test_a_link_that_steps_down_while_idle_is_no_change(
    fake: FakeMachine, source: Topology
) -> None:
    put_switched_pair(fake)
    _read(source)
    fake.write("sys/bus/pci/devices/0000:43:00.0/current_link_speed", "2.5 GT/s PCIe\n")
    fake.clock.advance(60 * SECOND)
    assert _read(source) == {}


def test_an_engine_or_a_gpu_that_came_is_looked_at_at_once(
    fake: FakeMachine, source: Topology, others: Others
) -> None:
    put_switched_pair(fake)
    _read(source)
    put_placement(fake, 4801, "0-15")
    others.processes = [(4801, "VLLM::Worker_TP")]
    fake.clock.advance(10 * SECOND)
    assert "pid 4801" in _by_address(_read(source)["topology"])
    others.gpus = [_gpu(0, "GPU-a", "0000:43:00.0")]
    fake.clock.advance(10 * SECOND)
    assert _by_address(_read(source)["topology"])["0000:43:00.0"]["name"] == "GPU-a"
    fake.clock.advance(10 * SECOND)
    assert _read(source) == {}


def test_a_look_without_findings_writes_none(fake: FakeMachine, source: Topology) -> None:
    put_cpuinfo(fake)
    put_device(fake, "pci0000:40/0000:40:01.0", "bridge")
    put_device(fake, "pci0000:40/0000:40:01.0/0000:41:00.0", "gpu")
    assert _read(source).keys() == {"topology"}


def test_an_engine_that_ended_meanwhile_is_left_out(
    fake: FakeMachine, source: Topology, others: Others
) -> None:
    put_switched_pair(fake)
    others.processes = [(4801, "VLLM::Worker_TP")]
    assert "pid 4801" not in _by_address(_read(source)["topology"])


def test_without_others_the_buses_are_still_shown(fake: FakeMachine) -> None:
    put_switched_pair(fake)
    nodes = _by_address(_read(Topology(fake.machine))["topology"])
    assert nodes["0000:43:00.0"]["name"] is None


def test_a_machine_that_shows_nothing_has_no_topology(fake: FakeMachine, source: Topology) -> None:
    assert refusal_of(source).state == State.NOT_FOUND
    fake.clock.advance(10 * SECOND)
    answer = source.read()
    assert isinstance(answer, NoData), "still so between two looks"
    put_switched_pair(fake)
    fake.clock.advance(60 * SECOND)
    assert _read(source)


def test_what_is_missing_is_said_at_every_poll(fake: FakeMachine, source: Topology) -> None:
    put_nodes(fake, "0-3")
    for _ in range(2):
        reading = source.read()
        assert isinstance(reading, Reading)
        assert reading.reason == (
            "no PCI devices in /sys; cpuinfo unreadable: a guest is not told from a host"
        )
        fake.clock.advance(10 * SECOND)


def test_where_the_kernel_cannot_tell_a_guest_it_is_null(
    fake: FakeMachine, source: Topology
) -> None:
    put_nodes(fake, "0-3")
    assert [row["virtualised"] for row in _read(source)["topology"]] == [None]


def test_a_root_on_no_known_node_has_no_parent(fake: FakeMachine, source: Topology) -> None:
    put_device(fake, "pci0000:40/0000:41:00.0", "gpu", node=3)
    assert _by_address(_read(source)["topology"])["0000:41:00.0"]["parent"] is None


def test_a_mig_instance_counts_as_the_gpu_it_is_part_of() -> None:
    knowledge = combine_knowledge(
        [(7, "w"), (8, "v")],
        [
            _gpu(0, "GPU-a", "0000:43:00.0"),
            _gpu(0, "MIG-1", "0000:43:00.0", parent="GPU-a"),
            _gpu(1, "GPU-lost", None),
        ],
        {"MIG-1": [7, 1234], "GPU-a": [8], "GPU-lost": [7]},
    )
    assert knowledge.gpus == {"0000:43:00.0": KnownGpu("GPU-a", 0, frozenset({7, 8}))}


@pytest.mark.parametrize(
    ("cpuinfo", "guest"),
    [
        ("processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n", True),
        ("processor\t: 0\nflags\t\t: fpu lahf_lm\n", False),
        ("processor\t: 0\nmodel name\t: hypervisor\nflags\t\t: fpu\n", False),
        ("processor\t: 0\nFeatures\t: fp asimd evtstrm\n", False),
        ("", False),
    ],
    ids=["guest", "host", "elsewhere", "arm", "empty"],
)
def test_a_guest_is_known_by_a_flag_of_its_processor(cpuinfo: str, *, guest: bool) -> None:
    assert parse_virtualised(cpuinfo) is guest


def test_numa_nodes_are_in_the_order_of_their_numbers(fake: FakeMachine) -> None:
    put_nodes(fake, *(str(number) for number in range(11)))
    (fake.sys / "devices/system/node/has_cpu").touch()
    look = read_look(fake.proc, fake.sys, combine_knowledge([], [], {}))
    assert [node.number for node in look.numa_nodes] == list(range(11))
    assert look.nodes_of("2,10") == {2, 10}


def test_the_recorded_machine_has_a_switch_a_worker_away_and_a_drive_with_half_its_lanes() -> None:
    clock = ManualClock()
    names = StoredNames(MemoryStore(), clock)
    machine = Machine(_RECORDED / "proc", _RECORDED / "sys", "host-1", clock, names)
    engines = EngineProcess(machine)
    engines.read()
    assert engines.engine_processes() == (
        (4711, "vllm"),
        (4801, "VLLM::Worker_TP"),
        (4802, "VLLM::Worker_TP"),
    )
    source = Topology(
        machine,
        engine_processes=engines.engine_processes,
        gpus=lambda: [_gpu(0, "GPU-a", "0000:43:00.0"), _gpu(1, "GPU-b", "0000:44:00.0")],
        gpu_processes=lambda: {"GPU-a": [4801], "GPU-b": [4802]},
    )
    rows = _read(source)
    nodes = _by_address(rows["topology"])
    assert {str(row["kind"]) for row in nodes.values()} == {
        *("numa", "root", "bridge", "gpu", "nvme", "nic", "process")
    }
    assert "0000:02:00.0" not in nodes, "the display of the management controller"
    drive = nodes["10000:01:00.0"]
    assert (drive["name"], drive["parent"], drive["link_width"]) == ("nvme0", "10000:00:02.0", 2)
    assert (nodes["0000:c2:00.0"]["name"], nodes["node2"]["cpus"]) == ("mlx5_0", None)
    found = [(row["rule"], row["subject"]) for row in rows["topology_finding"]]
    assert found == [
        ("numa_mismatch", "pid 4802"),
        ("shared_uplink", "0000:41:00.0"),
        ("narrow_link", "10000:01:00.0"),
    ]
    engines.close()


def test_every_link_of_the_recording_leads_somewhere_inside_it() -> None:
    links = [path for path in _RECORDED.rglob("*") if path.is_symlink()]
    assert links
    assert all(link.resolve(strict=True).is_relative_to(_RECORDED) for link in links)
