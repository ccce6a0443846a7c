from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collector.gpu_link import GpuLink
from collector.source import Reading, Row
from stallscope.storage.rows import to_batch
from tests.collector.fake_buses import put_cpuinfo, put_device, put_switched_pair
from tests.collector.fake_machine import FakeMachine
from tests.collector.nvml_answers import GB, ScriptedDriver, facts, flow, greeting, link
from tests.collector.stand_ins import SECOND

_SWITCHED = tuple(
    facts(index, pci_address=f"0000:{bus}:00.0", max_generation=4)
    for index, bus in enumerate(("43", "44"))
)


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    made = FakeMachine(tmp_path / "machine")
    put_cpuinfo(made)
    return made


def _read(source: GpuLink) -> dict[str, Sequence[Row]]:
    reading = source.read()
    assert isinstance(reading, Reading), reading
    rows = {table: list(rows) for table, rows in reading.rows.items() if isinstance(rows, Sequence)}
    for table, of_table in rows.items():
        to_batch(table, of_table)
    return dict(rows)


def _calibrated(device: object, direction: str, rate: float, together: float | None = None) -> Row:
    return {
        "device": device,
        "direction": direction,
        "kind": "calibrated",
        "bytes_per_second": rate,
        "link_generation": 5,
        "link_width": 16,
        "together_bytes_per_second": together,
    }


def test_calibration_holds_per_direction_and_while_both_are_busy(fake: FakeMachine) -> None:
    rows: list[Row] = []
    alone, both = link(rx=50 * GB, tx=2 * GB), link(rx=45 * GB, tx=40 * GB)
    driver = ScriptedDriver(greeting(facts()), [[alone], [alone], [both]])
    source = GpuLink(fake.machine, driver, ceilings=lambda: rows)
    device = _read(source)["gpu_link"][0]["device"]
    rows += [_calibrated(device, "rx", 55e9, 50e9), _calibrated(device, "tx", 57e9)]
    fake.clock.advance(60 * SECOND)
    [quiet] = _read(source)["gpu_link"]
    assert quiet["rx_saturation_ratio"] == pytest.approx(50 / 55)
    assert (quiet["rx_ceiling_kind"], quiet["both_busy"]) == ("calibrated", False)
    [together] = _read(source)["gpu_link"]
    assert together["both_busy"] is True
    assert together["rx_ceiling_bytes_per_second"] == 50e9
    assert together["rx_saturation_ratio"] == pytest.approx(45 / 50)
    assert together["tx_ceiling_bytes_per_second"] == 57e9, "that was not measured with both busy"


def test_what_a_link_holds_for_three_windows_becomes_its_ceiling(fake: FakeMachine) -> None:
    script = [[link(rx=rate * GB, tx=1 * GB)] for rate in (58, 60, 59, 57)]
    source = GpuLink(fake.machine, ScriptedDriver(greeting(facts()), [*script]))
    readings = [_read(source) for _ in script]
    assert [len(rows["link_ceiling"]) for rows in readings] == [0, 0, 1, 0]
    [learned] = readings[2]["link_ceiling"]
    assert (learned["direction"], learned["kind"]) == ("rx", "learned")
    assert learned["bytes_per_second"] == 58 * GB
    assert (learned["link_generation"], learned["link_width"]) == (5, 16)
    [row] = readings[3]["gpu_link"]
    assert (row["rx_ceiling_kind"], row["tx_ceiling_kind"]) == ("learned", "default")
    assert row["rx_saturation_ratio"] == pytest.approx(57 / 58)


def test_short_windows_teach_nothing(fake: FakeMachine) -> None:
    burst = replace(link(), rx=flow(60 * GB, coverage=0.02))
    source = GpuLink(fake.machine, ScriptedDriver(greeting(facts()), [[burst]]))
    assert [_read(source)["link_ceiling"] for _ in range(5)] == [[]] * 5


def test_full_width_is_what_both_ends_of_the_link_have(fake: FakeMachine) -> None:
    """A T4 tells sixteen lanes and has eight: the slot says so, and it is no fault."""
    root = "pci0000:1a/0000:1a:01.0"
    put_device(fake, root, "bridge", "8 3", "8 5")
    put_device(fake, f"{root}/0000:1b:00.0", "gpu", "8 3", "16 3")
    card = facts(max_generation=3, max_width=16)
    loaded = link(rx=5 * GB, tx=1 * GB, generation=3, width=8)
    source = GpuLink(fake.machine, ScriptedDriver(greeting(card), [[loaded]]))
    rows = [_read(source)["gpu_link"][0] for _ in range(4)]
    assert [row["link_downtrained"] for row in rows] == [False] * 4
    assert rows[0]["max_link_width"] == 8
    # Generation 3 x8 usually achieves 78 % of 7.877 GB/s.
    assert rows[0]["rx_saturation_ratio"] == pytest.approx(5 / 6.144, rel=1e-3)


def test_eight_lanes_of_sixteen_under_load_are_a_fault_where_both_ends_are_known(
    fake: FakeMachine,
) -> None:
    root = "pci0000:1a/0000:1a:01.0"
    put_device(fake, root, "bridge", "8 4", "16 5")
    put_device(fake, f"{root}/0000:1b:00.0", "gpu", "8 4", "16 4")
    card = facts(max_generation=4)
    script = [[link(width=8, generation=1)]] + [[link(rx=9 * GB, width=8, generation=4)]] * 3
    source = GpuLink(fake.machine, ScriptedDriver(greeting(card), [*script]))
    verdicts = [_read(source)["gpu_link"][0]["link_downtrained"] for _ in script]
    assert verdicts == [None, None, None, True]


def test_in_a_guest_the_buses_prove_nothing(fake: FakeMachine) -> None:
    put_switched_pair(fake)
    put_cpuinfo(fake, guest=True)
    samples = [link(gpu.uuid, rx=9 * GB, generation=4, width=8) for gpu in _SWITCHED]
    source = GpuLink(fake.machine, ScriptedDriver(greeting(*_SWITCHED), [samples]))
    for _ in range(4):
        rows = _read(source)
        assert rows["pcie_uplink"] == []
        assert [row["link_downtrained"] for row in rows["gpu_link"]] == [False, False]


def _switched(fake: FakeMachine, *rates: tuple[float | None, float | None]) -> GpuLink:
    """Return a source of two generation 4 GPUs below one switch with an uplink as wide as each."""
    put_switched_pair(fake)
    samples = [link(f"GPU-{index}", rx, tx, generation=4) for index, (rx, tx) in enumerate(rates)]
    return GpuLink(fake.machine, ScriptedDriver(greeting(*_SWITCHED), [samples]))


def test_gpus_below_a_switch_add_up_at_its_uplink(fake: FakeMachine) -> None:
    # Generation 4 x16 usually achieves 83 % of 31.508 GB/s: 26.151.
    source = _switched(fake, (14 * GB, 3 * GB), (11 * GB, 1 * GB))
    rows = _read(source)
    [uplink] = rows["pcie_uplink"]
    assert uplink["rx_window_mean_bytes_per_second"] == 25 * GB
    assert uplink["tx_window_mean_bytes_per_second"] == 4 * GB
    assert uplink["rx_saturation_ratio"] == pytest.approx(25 / 26.151, rel=1e-3)
    assert uplink["tx_saturation_ratio"] == pytest.approx(4 / 26.151, rel=1e-3)
    assert (uplink["gpus"], uplink["gpus_measured"]) == (2, 2)
    assert (uplink["link_generation"], uplink["link_width"]) == (4, 16)
    assert uplink["window_us"] == SECOND
    bridge = fake.devices()["0000:41:00.0"]
    assert (bridge["device"], bridge["kind"], bridge["role"]) == (
        uplink["device"],
        "bridge",
        "uplink",
    )
    assert [row["rx_saturation_ratio"] for row in rows["gpu_link"]] == [
        pytest.approx(14 / 26.151, rel=1e-3),
        pytest.approx(11 / 26.151, rel=1e-3),
    ]


def test_an_uplink_is_not_told_from_some_of_its_gpus(fake: FakeMachine) -> None:
    [uplink] = _read(_switched(fake, (14 * GB, 3 * GB), (None, None)))["pcie_uplink"]
    assert uplink["rx_window_mean_bytes_per_second"] is None
    assert uplink.get("rx_saturation_ratio") is None
    assert uplink["gpus_measured"] == 1
    assert uplink["reason"] == "1 of 2 GPUs below were not measured"


def test_an_uplink_that_does_not_tell_its_state_has_sums_alone(fake: FakeMachine) -> None:
    source = _switched(fake, (14 * GB, 3 * GB), (11 * GB, 1 * GB))
    fake.write("sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0/current_link_speed", "Unknown\n")
    [uplink] = _read(source)["pcie_uplink"]
    assert uplink["rx_window_mean_bytes_per_second"] == 25 * GB
    assert uplink.get("rx_saturation_ratio") is None
    assert "unknown" in str(uplink["reason"])


def test_a_gpu_reaches_no_more_than_the_narrowest_link_above_it(fake: FakeMachine) -> None:
    source = _switched(fake, (10 * GB, 3 * GB), (0.0, 0.0))
    upper = "sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0"
    fake.write(f"{upper}/current_link_width", "8\n")
    first, _ = _read(source)["gpu_link"]
    assert first["rx_ceiling_bytes_per_second"] == pytest.approx(13.076e9, rel=1e-3)
    assert first["rx_saturation_ratio"] == pytest.approx(10 / 13.076, rel=1e-3)
    assert first["link_width"] == 16


def test_an_uplink_is_read_at_every_poll(fake: FakeMachine) -> None:
    source = _switched(fake, (10 * GB, 3 * GB), (9 * GB, 2 * GB))
    _read(source)
    upper = "sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0"
    fake.write(f"{upper}/current_link_speed", "2.5 GT/s PCIe\n")
    [uplink] = _read(source)["pcie_uplink"]
    assert uplink["link_generation"] == 1
    # Loaded: so it is judged as it is, stuck at 4 GB/s.
    assert uplink["rx_saturation_ratio"] == 1


def test_traffic_between_gpus_below_a_switch_teaches_nothing_about_the_host(
    fake: FakeMachine,
) -> None:
    source = _switched(fake, (28 * GB, 1 * GB), (1 * GB, 28 * GB))
    assert [_read(source)["link_ceiling"] for _ in range(5)] == [[]] * 5
