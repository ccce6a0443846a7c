from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from collector.block_device import BlockDevice
from collector.clock_event import ClockEvent
from collector.engine_process import EngineProcess
from collector.host_pressure import HostPressure
from collector.names import StoredNames
from collector.source import Machine, Source
from stallscope.schema import arrow_schema, table
from tests.collector.fake_machine import row_of, rows_of
from tests.collector.stand_ins import ManualClock, MemoryStore
from tests.conftest import REPO

_FOLDER = REPO / "tests/captures/machines/linux-6.8__2-nvme-lvm__psi__vllm"
_TICK = 100_000


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def machine(store: MemoryStore, clock: ManualClock) -> Machine:
    names = StoredNames(store, clock)
    return Machine(_FOLDER / "proc", _FOLDER / "sys", "host-1", clock, names)


def test_its_disks_are_four_and_two_nvme_with_sata_make_the_totals(
    machine: Machine, store: MemoryStore, clock: ManualClock
) -> None:
    source = BlockDevice(machine)
    assert len(rows_of(source)) == 4
    clock.advance(_TICK)
    devices = {str(row["name"]): row for row in store.stored["device"]}
    rows = {row["device"]: row for row in rows_of(source)}
    found = {
        name: (facts["role"], facts["pci_address"], facts["numa_node"], facts["counted"])
        for name, facts in devices.items()
    }
    assert found == {
        "nvme0n1": ("nvme", "0000:3b:00.0", 0, True),
        "nvme1n1": ("nvme", "0000:d8:00.0", 1, True),
        "sda": ("disk", "0000:00:17.0", None, True),
        "vg0-offload": ("dm", None, None, False),
    }
    nvme1 = rows[devices["nvme1n1"]["device"]]
    assert (nvme1["in_flight"], nvme1["in_flight_read"], nvme1["reads"]) == (5, 5, 0)
    assert nvme1["io_stuck_candidate"] is True
    assert rows[devices["sda"]["device"]]["flushes"] is None
    source.close()


def test_its_engine_is_four_processes_on_two_sockets(machine: Machine) -> None:
    source = EngineProcess(machine)
    rows = rows_of(source)
    assert [(row["pid"], row["numa_nodes"]) for row in rows] == [
        (4711, "0,1"),
        (4790, "0,1"),
        (4801, "0"),
        (4802, "1"),
    ]
    assert source.engine_cgroups() == ("/system.slice/vllm.service",)
    source.close()


def test_its_pressure_has_a_row_for_the_engines_cgroup(
    machine: Machine, clock: ManualClock
) -> None:
    processes = EngineProcess(machine)
    processes.read()
    source = HostPressure(machine, cgroups=processes.engine_cgroups)
    rows_of(source)
    clock.advance(_TICK)
    system, cgroup = rows_of(source)
    assert system["memory_available_bytes"] == 402_653_184 * 1024
    assert system.get("cpu_full_ratio") is None
    assert cgroup["scope"] == "/system.slice/vllm.service"
    assert (cgroup["cpu_full_ratio"], cgroup["throttled_us"]) == (0.0, 0)
    assert (system["reason"], cgroup["reason"]) == (None, None)
    for each in (processes, source):
        each.close()


def test_its_boot_is_known(machine: Machine) -> None:
    source: Source = ClockEvent(machine, synchronised=lambda: True)
    assert row_of(source)["boot_id"] == "3c1f6f0e-5f1a-4d7e-9a55-0d6f1c2b7a10"


def test_all_rows_fit_their_tables(machine: Machine, clock: ManualClock) -> None:
    processes = EngineProcess(machine, find_engine=lambda _: 1)
    pressure = HostPressure(machine, cgroups=processes.engine_cgroups)
    sources: list[Source] = [processes, pressure, BlockDevice(machine), ClockEvent(machine)]
    for source in sources:
        rows = [*rows_of(source)]
        clock.advance(_TICK)
        rows.extend(rows_of(source))
        (name,) = source.tables
        assert rows
        stored = pa.Table.from_pylist(rows, schema=arrow_schema(name))
        stored.validate(full=True)
        for column in table(name).columns:
            assert column.nullable or stored[column.name].null_count == 0, column.name
        source.close()


def test_every_link_of_the_recording_leads_somewhere_inside_it() -> None:
    links = [path for path in _FOLDER.rglob("*") if path.is_symlink()]
    assert links
    assert all(Path(link).resolve(strict=True).is_relative_to(_FOLDER) for link in links)
