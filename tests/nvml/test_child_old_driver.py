"""Functions that a driver does not have are features that are absent, nothing more."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from collector.nvml.messages import GpuState, Method
from lab.nvml.build import NoCompilerError, build_library
from lab.nvml.driver import FakeDriver
from tests.nvml.running_child import RunningChild

RX, TX = 20_000_000_000, 7_000_000_000
YOUNG = (
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc",
    "nvmlGpmSampleGet",
    "nvmlGpmMetricsGet",
    "nvmlGpmSampleFree",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetC2cModeInfoV",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetMigMode",
)


@pytest.fixture(scope="module")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old-nvml")
    try:
        build_library(folder, without=YOUNG)
    except NoCompilerError as error:
        pytest.skip(str(error))
    return folder


@pytest.fixture
def old_driver(old_library: Path, tmp_path: Path) -> FakeDriver:
    return FakeDriver(old_library, tmp_path / "control", gpus=1)


def test_the_link_is_measured_by_what_is_left(old_driver: FakeDriver) -> None:
    """A missing symbol ended the whole process elsewhere (nvidia_gpu_exporter#476)."""
    old_driver.gpus[0].set_rates(RX, TX)
    with RunningChild(old_driver) as child:
        facts = child.greeting.gpus[0]
        sample = child.first_link()
    assert [probe.outcome for probe in facts.probes] == [*["not in this driver"] * 3, "works"]
    assert (sample.state, sample.method) == (GpuState.OK, Method.THROUGHPUT)
    assert sample.tx.bytes_per_second == pytest.approx(TX, rel=0.05)


def test_the_state_is_read_by_older_functions(old_driver: FakeDriver) -> None:
    gpu = old_driver.gpus[0]
    gpu.throttle_reasons = 4
    with RunningChild(old_driver) as child:
        child.state()
        sample = child.first_state()
    assert sample.values["throttle_reasons"] == 4
    assert (
        sample.values["memory_used_bytes"] == 31 << 30
    )  # the older struct counts reserved as used
    assert "memory_reserved_bytes" not in sample.values
    assert "not in this driver: link_recoveries, pcie_errors" in sample.reason


def test_gpm_metrics_that_a_driver_does_not_know_fall_to_rates(driver: FakeDriver) -> None:
    """The metrics end at 210 in CUDA 12.9, under the same version word."""
    driver.gpm_metric_end = 210
    driver.gpus[0].set_rates(RX, TX)
    with RunningChild(driver) as child:
        facts = child.greeting.gpus[0]
        time.sleep(0.15)
        sample = child.first_link()
    assert [probe.method for probe in facts.probes] == [Method.GPM_CUMULATIVE, Method.GPM_RATE]
    assert sample.method is Method.GPM_RATE
    assert sample.rx.bytes_per_second == pytest.approx(RX, rel=0.05)


def test_a_device_without_gpm_falls_to_counters(driver: FakeDriver) -> None:
    driver.gpus[0].supports_gpm_cumulative = driver.gpus[0].supports_gpm_rate = 0  # an A100
    with RunningChild(driver) as child:
        probes = child.greeting.gpus[0].probes
    assert [probe.outcome for probe in probes] == [*["not supported by this GPU"] * 2, "works"]
