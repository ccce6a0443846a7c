from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from collector.gpu_link import GpuLink
from collector.gpu_state import GpuStateSource
from collector.names import StoredNames
from collector.nvml.messages import Greeting, LinkAnswer, StateAnswer, decode
from collector.source import Machine, Reading, Row
from stallscope.exposition.latest import Row as PageRow
from stallscope.exposition.page import Page, render
from stallscope.schema import arrow_schema
from stallscope.storage.rows import to_batch
from tests.collector.nvml_answers import ScriptedDriver
from tests.collector.stand_ins import SECOND, ManualClock, MemoryStore
from tests.conftest import REPO

_CAPTURES = REPO / "tests/captures"
_MACHINE = "linux-6.8__3-gpu-switch__numa__vllm"
_TALK = _CAPTURES / "nvml/3-gpu-switch__mig__one-lost.jsonl"


def read_conversation(path: Path) -> ScriptedDriver:
    """Return a driver that answers as was recorded."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    said = {
        asked: [json.dumps(line["said"]).encode() for line in lines if line["asked"] == asked]
        for asked in (None, "link", "state")
    }
    [greeting] = said[None]
    return ScriptedDriver(
        decode(Greeting, greeting),
        [decode(LinkAnswer, answer).samples for answer in said["link"]],
        [decode(StateAnswer, answer).samples for answer in said["state"]],
    )


class Recorded:
    """Both sources over the recorded machine and conversation."""

    def __init__(self) -> None:
        self.store, self.clock = MemoryStore(), ManualClock(mono_us=5_000 * SECOND)
        folder = _CAPTURES / "machines" / _MACHINE
        names = StoredNames(self.store, self.clock)
        machine = Machine(folder / "proc", folder / "sys", "host-1", self.clock, names)
        driver = read_conversation(_TALK)
        self.link, self.state = GpuLink(machine, driver), GpuStateSource(machine, driver)

    def read(self, polls: int) -> dict[str, Sequence[Row]]:
        """Return the rows of the last of so many polls of both sources."""
        found: dict[str, Sequence[Row]] = {}
        for _ in range(polls):
            for source in (self.link, self.state):
                reading = source.read()
                assert isinstance(reading, Reading), reading
                for table, rows in reading.rows.items():
                    assert to_batch(table, rows).schema == arrow_schema(table)
                    assert isinstance(rows, Sequence)
                    found[table] = rows
            self.clock.advance(SECOND)
        return found


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def test_an_uplink_can_be_full_while_no_link_is(recorded: Recorded) -> None:
    rows = recorded.read(2)
    first, second, idle, instance = rows["gpu_link"]
    # 83 % of generation 4 x16, 31.508 GB/s: for each card and for the switch.
    assert first["rx_saturation_ratio"] == pytest.approx(13.5 / 26.151, rel=1e-3)
    assert second["tx_saturation_ratio"] == pytest.approx(4.1 / 26.151, rel=1e-3)
    [uplink] = rows["pcie_uplink"]
    assert uplink["rx_saturation_ratio"] == pytest.approx(23.25 / 26.151, rel=1e-3)
    assert uplink["tx_saturation_ratio"] == pytest.approx(6.35 / 26.151, rel=1e-3)
    assert (idle["link_generation"], idle["link_downtrained"]) == (1, None)
    assert (idle["method"], idle["coverage_ratio"]) == ("throughput", 0.02)
    assert (instance["state"], instance.get("rx_bytes")) == ("not_applicable", None)


def test_a_lost_gpu_leaves_the_others_and_no_sum(recorded: Recorded) -> None:
    rows = recorded.read(3)
    assert [row["state"] for row in rows["gpu_link"]] == ["ok", "gpu_lost", "ok", "not_applicable"]
    assert [row["state"] for row in rows["gpu_state"]] == ["ok", "gpu_lost", "ok", "ok"]
    [uplink] = rows["pcie_uplink"]
    assert uplink["rx_window_mean_bytes_per_second"] is None
    assert "1 of 2" in str(uplink["reason"])


def test_devices_are_three_gpus_an_instance_and_a_switch(recorded: Recorded) -> None:
    recorded.read(1)
    found = [
        (row["kind"], row["role"], row["pci_address"], row["numa_node"])
        for row in recorded.store.stored["device"]
    ]
    assert found == [
        ("gpu", "gpu", "0000:43:00.0", 0),
        ("gpu", "gpu", "0000:44:00.0", 0),
        ("gpu", "gpu", "0000:c1:00.0", 1),
        ("gpu", "mig", "0000:c1:00.0", 1),
        ("bridge", "uplink", "0000:41:00.0", 0),
    ]


def test_states_are_as_told_and_the_topology_learns_who_computes_where(recorded: Recorded) -> None:
    rows = recorded.read(2)["gpu_state"]
    assert [row["power_watts"] for row in rows[:3]] == [355.25, 301.5, 62.0]
    assert (rows[0]["replays"], rows[1]["throttle_reasons"]) == (3, 4)
    assert rows[3].get("power_watts") is None
    assert "power_watts" in str(rows[3]["reason"])
    pids = [pids for pids in recorded.state.gpu_processes().values() if pids]
    assert pids == [(4801,), (4802,)]


def test_the_page_is_the_recorded_one(
    recorded: Recorded, golden: Callable[[str, str], None]
) -> None:
    def find_fact(kind: str, number: int) -> PageRow | None:
        return next((row for row in recorded.store.stored[kind] if row[kind] == number), None)

    clock = ManualClock(mono_us=5_001 * SECOND)
    page = Page(find_fact, clock, {"version": "0", "schema_version": "2", "host": "host-1"})
    for table, rows in recorded.read(2).items():
        page.observe(table, rows, SECOND)
    golden(f"metrics/{_MACHINE}.prom", render(page, "text/plain;version=0.0.4")[1].decode())
