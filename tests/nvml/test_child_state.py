"""What the child says about the state of GPUs."""

from __future__ import annotations

import time

import pytest

from collector.nvml.messages import GpuState
from lab.nvml.control import Group
from lab.nvml.driver import FakeDriver
from stallscope.schema import table
from tests.nvml.running_child import RunningChild

COUNTERS = {
    "replays",
    "link_recoveries",
    "pcie_errors",
    "ecc_corrected",
    "ecc_uncorrected",
    "nvlink_rx_bytes",
    "nvlink_tx_bytes",
}


def test_values_land_in_columns_of_the_table(driver: FakeDriver) -> None:
    gpu = driver.gpus[0]
    gpu.throttle_reasons = 0x44
    gpu.utilisation_percent, gpu.memory_utilisation_percent = 73, 41
    gpu.set_processes({4242: 1 << 30, 4243: 1 << 20})
    with RunningChild(driver) as child:
        sample = child.first_state()
    assert sample.state is GpuState.OK
    assert sample.values == {
        "sm_clock_mhz": 1755,
        "sm_clock_max_mhz": 1980,
        "memory_clock_mhz": 2619,
        "throttle_reasons": 0x44,
        "power_watts": 310,
        "power_limit_watts": 700,
        "temperature_celsius": 47,
        "memory_used_bytes": 30 << 30,
        "memory_reserved_bytes": 1 << 30,
        "memory_total_bytes": 80 << 30,
        "utilisation_ratio": 0.73,
        "memory_utilisation_ratio": 0.41,
        "processes": 2,
    }
    assert sample.compute_pids == (4242, 4243)
    assert set(sample.values) | COUNTERS <= {column.name for column in table("gpu_state").columns}


def test_counters_come_as_what_they_gained(driver: FakeDriver) -> None:
    gpu = driver.gpus[0]
    gpu.replay_counter, gpu.link_recoveries = 1_000, 20
    gpu.ecc_corrected, gpu.ecc_uncorrected = 7, 1
    with RunningChild(driver) as child:
        first = child.first_state()
        gpu.replay_counter += 5
        gpu.link_recoveries += 2
        gpu.ecc_corrected += 3
        gpu.set_pcie_error(173, 11)
        gpu.set_pcie_error(183, 4)
        second = child.first_state()
        gpu.replay_counter = 0  # the driver was loaded anew
        third = child.first_state()
    assert not COUNTERS & set(first.values)
    assert "first sample" in first.reason
    assert first.window_us is None
    assert {name: second.values[name] for name in COUNTERS & set(second.values)} == {
        "replays": 5,
        "link_recoveries": 2,
        "pcie_errors": 15,
        "ecc_corrected": 3,
        "ecc_uncorrected": 0,
    }
    assert second.window_us == second.mono_us - first.mono_us
    assert "replays" not in third.values
    assert third.values["ecc_corrected"] == 0


def test_nvlink_is_told_where_there_is_one(driver: FakeDriver) -> None:
    gpu = driver.gpus[0]
    gpu.supports_nvlink = 1
    gpu.nvlink_rx.bytes_per_second = 30_000_000_000
    gpu.nvlink_tx.bytes_per_second = 11_000_000_000
    with RunningChild(driver) as child:
        child.state()
        time.sleep(0.2)
        with_link, without = child.state().samples
    assert with_link.window_us is not None
    seconds = with_link.window_us / 1e6
    assert with_link.values["nvlink_rx_bytes"] == pytest.approx(30e9 * seconds, rel=0.1)
    assert with_link.values["nvlink_tx_bytes"] == pytest.approx(11e9 * seconds, rel=0.1)
    assert with_link.reason == ""
    assert without.reason == "not supported: nvlink_rx_bytes, nvlink_tx_bytes"


def test_what_is_missing_is_named_and_the_rest_is_there(driver: FakeDriver) -> None:
    """A missing node crashed others (microsoft/pai#2999); "N/A" became a number (netdata#15229)."""
    gpu = driver.gpus[0]
    gpu.fail(Group.ECC, 3)
    gpu.fail(Group.POWER, 4)
    gpu.fail(Group.TEMPERATURE, 10)
    gpu.fail(Group.PROCESSES, 3)
    with RunningChild(driver) as child:
        child.state()
        calls = {group: gpu.group_calls(group) for group in Group}
        sample = child.first_state()
        asked = {group for group in Group if gpu.group_calls(group) > calls[group]}
        gpu.fail(Group.TEMPERATURE, 0)
        again = child.first_state()
    assert sample.state is GpuState.OK
    assert sample.values["memory_used_bytes"] == 30 << 30
    assert sample.values["replays"] == 0
    assert sample.reason == (
        "no permission: power_watts, power_limit_watts; Timeout: temperature_celsius; "
        "not supported: ecc_corrected, ecc_uncorrected, nvlink_rx_bytes, nvlink_tx_bytes, processes"
    )
    assert not {Group.ECC, Group.POWER, Group.PROCESSES} & asked
    assert Group.TEMPERATURE in asked
    assert again.values["temperature_celsius"] == 47


def test_a_missing_field_is_asked_for_once(driver: FakeDriver) -> None:
    """It can cost 1.2 ms each time."""
    with RunningChild(driver) as child:
        first = child.first_state()
        second = child.first_state()
    assert first.call_us >= 2_400
    assert second.call_us < first.call_us - 1_200


@pytest.mark.parametrize("blank", [1, 2, 3])
def test_marks_for_no_value_are_missing(driver: FakeDriver, blank: int) -> None:
    driver.gpus[0].blank_sentinel = blank
    driver.gpus[0].set_processes({77: 1})
    with RunningChild(driver) as child:
        child.state()
        sample = child.first_state()
    assert sample.values == {"throttle_reasons": 0, "processes": 1}
    assert "no value: sm_clock_mhz" in sample.reason


def test_a_state_that_changes_is_read_each_time(driver: FakeDriver) -> None:
    with RunningChild(driver) as child:
        seen = []
        for celsius in (40, 55, 70):
            driver.gpus[0].temperature_celsius = celsius
            seen.append(child.first_state().values["temperature_celsius"])
    assert seen == [40, 55, 70]
