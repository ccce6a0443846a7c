"""Links that mean nothing: not measured, and the reason said, never 0 or 100 %."""

from __future__ import annotations

import time

import pytest

from collector.nvml.messages import GpuState
from lab.nvml.control import Group
from lab.nvml.driver import FakeDriver
from tests.nvml.running_child import PROGRAM, RunningChild

RX, TX = 20_000_000_000, 7_000_000_000


def as_nothing(child: RunningChild, driver: FakeDriver, state: GpuState) -> str:
    """Return why the link of the first GPU means nothing, and hold that it is not asked."""
    facts = child.greeting.gpus[0]
    traffic_calls = [driver.gpus[0].group_calls(group) for group in (Group.THROUGHPUT, Group.GPM)]
    sample = child.first_link()
    assert traffic_calls == [0, 0]
    assert facts.link_state is sample.state is state
    assert facts.link_reason == sample.reason
    assert facts.probes == ()
    assert (sample.method, sample.rx.bytes_per_second, sample.window_us) == (None, None, None)
    return sample.reason


def test_copies_over_c2c_bypass_pcie(driver: FakeDriver) -> None:
    """GH200 copies 337 GB/s from the host: many times what its PCIe link could carry."""
    gpu = driver.gpus[0]
    gpu.c2c_links, gpu.c2c_enabled = 10, 1
    gpu.c2c_rx.bytes_per_second = 300_000_000_000
    gpu.c2c_tx.bytes_per_second = 90_000_000_000
    with RunningChild(driver) as child:
        reason = as_nothing(child, driver, GpuState.NOT_APPLICABLE)
        first = child.first_state()
        time.sleep(0.15)
        second = child.first_state()
    assert "C2C" in reason
    assert "c2c_rx_window_mean_bytes_per_second" not in first.values
    assert second.values["c2c_rx_window_mean_bytes_per_second"] == pytest.approx(3e11, rel=0.05)
    assert second.values["c2c_tx_window_mean_bytes_per_second"] == pytest.approx(9e10, rel=0.05)


def test_c2c_is_known_to_drivers_without_its_fields(driver: FakeDriver) -> None:
    driver.gpus[0].c2c_enabled = 1
    with RunningChild(driver) as child:
        assert "C2C" in as_nothing(child, driver, GpuState.NOT_APPLICABLE)


def test_c2c_links_that_are_not_in_use_carry_nothing(driver: FakeDriver) -> None:
    driver.gpus[0].c2c_links = 10
    with RunningChild(driver) as child:
        assert child.greeting.gpus[0].link_state is GpuState.OK


def test_a_gb10_shares_its_memory(driver: FakeDriver) -> None:
    gpu = driver.gpus[0]
    gpu.name = "NVIDIA GB10"
    gpu.c2c_links, gpu.c2c_enabled = 1, 1
    gpu.generation = gpu.max_generation = gpu.width = gpu.max_width = 1
    with RunningChild(driver) as child:
        assert "GB10" in as_nothing(child, driver, GpuState.NOT_APPLICABLE)


def test_a_vgpu_guest_has_no_link_of_its_own(driver: FakeDriver) -> None:
    driver.gpus[0].virtualization_mode = 2
    with RunningChild(driver) as child:
        facts, sample = child.greeting.gpus[0], child.first_link()
        state = child.first_state()
    assert facts.link_state is sample.state is GpuState.UNSUPPORTED
    assert "vGPU guest" in sample.reason
    assert state.state is GpuState.OK
    assert state.values["memory_used_bytes"] == 30 << 30
    assert "not supported: replays" in state.reason


def test_passthrough_has_one(driver: FakeDriver) -> None:
    driver.gpus[0].virtualization_mode = 1
    with RunningChild(driver) as child:
        assert child.greeting.gpus[0].link_state is GpuState.OK


def test_wsl_makes_figures_up(driver: FakeDriver) -> None:
    """nvidia-docker#1458: constants while nothing moves."""
    program = PROGRAM.format(release="5.15.167.4-microsoft-standard-WSL2")
    driver.gpus[0].set_rates(RX, TX)
    with RunningChild(driver, program) as child:
        assert "WSL" in as_nothing(child, driver, GpuState.NOT_TRUSTWORTHY)


def test_the_link_of_mig_instances_is_that_of_the_whole_gpu(driver: FakeDriver) -> None:
    """NVIDIA/DCGM#88: PCIe is not told per instance."""
    gpu = driver.gpus[0]
    gpu.mig_enabled, gpu.mig_instances = 1, 2
    gpu.utilisation_percent = 50
    gpu.set_processes({31: 1})
    gpu.set_rates(RX, TX)
    with RunningChild(driver) as child:
        facts = child.greeting.gpus
        time.sleep(0.15)
        links = child.link().samples
        states = child.state().samples
    whole, one, two, other = facts
    assert child.greeting.expected_gpus == 2
    assert [each.parent for each in facts] == ["", whole.uuid, whole.uuid, ""]
    assert len({each.uuid for each in facts}) == 4
    assert (one.index, one.pci_address) == (whole.index, whole.pci_address)
    assert [each.uuid for each in links] == [each.uuid for each in facts]
    assert [each.uuid for each in states] == [each.uuid for each in facts]
    assert [each.state for each in links] == [
        GpuState.OK,
        GpuState.NOT_APPLICABLE,
        GpuState.NOT_APPLICABLE,
        GpuState.OK,
    ]
    assert links[0].rx.bytes_per_second == pytest.approx(RX, rel=0.05)
    assert links[0].utilisation_ratio is None
    assert "the whole GPU" in links[1].reason
    assert (two.link_state, other.link_state) == (GpuState.NOT_APPLICABLE, GpuState.OK)


def test_mig_instances_have_memory_and_processes(driver: FakeDriver) -> None:
    """With MIG there is no utilisation: missing with the reason, not 0."""
    gpu = driver.gpus[0]
    gpu.mig_enabled, gpu.mig_instances = 1, 2
    gpu.utilisation_percent = 50
    gpu.set_processes({31: 1})
    with RunningChild(driver) as child:
        whole, instance, *_ = child.state().samples
    assert "utilisation_ratio" not in whole.values
    assert whole.reason.startswith("MIG divides the GPU")
    assert instance.values == {
        "memory_used_bytes": 15 << 30,
        "memory_reserved_bytes": 1 << 29,
        "memory_total_bytes": 40 << 30,
        "processes": 1,
    }
    assert instance.reason.startswith("MIG instance")
    assert instance.compute_pids == (31,)


def test_facts_are_spelt_as_others_need_them(driver: FakeDriver) -> None:
    with RunningChild(driver) as child:
        first, second = child.greeting.gpus
    assert child.greeting.driver == "580.95.05"
    assert child.greeting.library == "13.580.95.05"
    assert first.uuid == driver.gpus[0].uuid
    assert (first.index, second.index) == (0, 1)
    assert (first.pci_address, second.pci_address) == ("0000:1b:00.0", "0000:29:00.0")
    assert first.model == "NVIDIA H100 80GB HBM3"
    assert (first.max_generation, first.max_width) == (5, 16)


def test_the_state_of_a_card_that_is_wired_narrower_is_read_as_it_is(driver: FakeDriver) -> None:
    gpu = driver.gpus[0]
    gpu.width, gpu.max_width = 8, 16  # T4 and A10G say so
    with RunningChild(driver) as child:
        sample = child.first_link()
    assert (sample.width, child.greeting.gpus[0].max_width) == (8, 16)
    assert not sample.link_changed
