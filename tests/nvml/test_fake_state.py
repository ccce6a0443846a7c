"""What the real binding reads of GPUs beside their traffic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.nvml.driver import FakeDriver

Ask = Callable[[str], Any]


def test_gpus_have_names_of_their_own(driver: FakeDriver, ask: Ask) -> None:
    driver.driver_version = "555.42.06"
    driver.gpus[1].name = "NVIDIA L40S"
    driver.gpus[1].uuid = "GPU-cafe"
    driver.gpus[1].bus_id = "0000000A:C1:00.0"
    got = ask(
        "info = n.nvmlDeviceGetPciInfo(gpus[1])\n"
        "say(n.nvmlSystemGetDriverVersion(), [n.nvmlDeviceGetName(gpu) for gpu in gpus],"
        " n.nvmlDeviceGetUUID(gpus[1]), [info.domain, info.bus, info.device],"
        " info.busId, info.busIdLegacy, n.nvmlDeviceGetMinorNumber(gpus[1]))"
    )
    assert got == [
        "555.42.06",
        ["NVIDIA H100 80GB HBM3", "NVIDIA L40S"],
        "GPU-cafe",
        [10, 0xC1, 0],
        "0000000A:C1:00.0",
        "000A:C1:00.0",
        1,
    ]


def test_a_gpu_is_found_by_its_names(driver: FakeDriver, ask: Ask) -> None:
    uuid, bus_id = driver.gpus[1].uuid, driver.gpus[1].bus_id
    got = ask(
        f"by_uuid = n.nvmlDeviceGetHandleByUUID({uuid.encode()!r})\n"
        f"by_bus = n.nvmlDeviceGetHandleByPciBusId({bus_id!r})\n"
        "say(n.nvmlDeviceGetIndex(by_uuid), n.nvmlDeviceGetIndex(by_bus),"
        " code(n.nvmlDeviceGetHandleByUUID, b'GPU-none'), code(n.nvmlDeviceGetHandleByIndex, 2))"
    )
    assert got == [1, 1, 6, 2]


def test_sixteen_gpus_have_sixteen_addresses(fake_nvml: Path, tmp_path: Path) -> None:
    with FakeDriver(fake_nvml, tmp_path / "many", gpus=16) as driver:
        assert len({gpu.bus_id for gpu in driver.gpus}) == 16
        assert len({gpu.uuid for gpu in driver.gpus}) == 16
        assert {len(gpu.bus_id) for gpu in driver.gpus} == {16}


LINK = (
    "say([f(gpus[0]) for f in (n.nvmlDeviceGetCurrPcieLinkGeneration,"
    " n.nvmlDeviceGetCurrPcieLinkWidth, n.nvmlDeviceGetMaxPcieLinkGeneration,"
    " n.nvmlDeviceGetMaxPcieLinkWidth, n.nvmlDeviceGetGpuMaxPcieLinkGeneration,"
    " n.nvmlDeviceGetPcieSpeed)])"
)


def test_link_state(driver: FakeDriver, ask: Ask) -> None:
    gpu = driver.gpus[0]
    gpu.generation, gpu.width, gpu.max_generation, gpu.max_width = 2, 4, 3, 8
    gpu.gpu_max_generation = 4
    assert ask(LINK) == [2, 4, 3, 8, 4, 5000]


def test_an_idle_link_steps_down_and_traffic_or_work_brings_it_up(
    driver: FakeDriver, ask: Ask
) -> None:
    gpu = driver.gpus[0]
    gpu.generation, gpu.idle_generation = 4, 1
    assert ask(LINK)[0] == 1
    gpu.tx_bytes_per_second = 1
    assert ask(LINK)[0] == 4
    gpu.tx_bytes_per_second = 0
    gpu.utilisation_percent = 60
    assert ask(LINK)[0] == 4


def test_numbers_of_the_state(driver: FakeDriver, ask: Ask) -> None:
    gpu = driver.gpus[0]
    gpu.sm_clock_mhz, gpu.max_sm_clock_mhz, gpu.memory_clock_mhz = 1400, 1900, 2600
    gpu.max_memory_clock_mhz, gpu.power_mw, gpu.power_limit_mw = 2700, 250_500, 650_000
    gpu.temperature_celsius, gpu.throttle_reasons = 61, 2**40 + 4
    gpu.utilisation_percent, gpu.memory_utilisation_percent = 87, 34
    gpu.replay_counter, gpu.ecc_corrected, gpu.ecc_uncorrected = 5, 12, 1
    got = ask(
        "g = gpus[0]\nuse = n.nvmlDeviceGetUtilizationRates(g)\n"
        "say([n.nvmlDeviceGetClockInfo(g, 1), n.nvmlDeviceGetMaxClockInfo(g, 1),"
        " n.nvmlDeviceGetClockInfo(g, 2), n.nvmlDeviceGetMaxClockInfo(g, 2),"
        " n.nvmlDeviceGetPowerUsage(g), n.nvmlDeviceGetEnforcedPowerLimit(g),"
        " n.nvmlDeviceGetTemperature(g, 0), n.nvmlDeviceGetTemperatureV(g, 0),"
        " n.nvmlDeviceGetCurrentClocksEventReasons(g),"
        " n.nvmlDeviceGetCurrentClocksThrottleReasons(g), use.gpu, use.memory,"
        " n.nvmlDeviceGetPcieReplayCounter(g),"
        " n.nvmlDeviceGetTotalEccErrors(g, 0, 0), n.nvmlDeviceGetTotalEccErrors(g, 1, 0)])"
    )
    clocks, power, heat = [1400, 1900, 2600, 2700], [250_500, 650_000], [61, 61]
    assert got == [*clocks, *power, *heat, 2**40 + 4, 2**40 + 4, 87, 34, 5, 12, 1]


def test_reserved_memory_is_used_in_the_first_version_and_apart_in_the_second(
    driver: FakeDriver, ask: Ask
) -> None:
    gpu = driver.gpus[0]
    gpu.memory_total_bytes, gpu.memory_used_bytes, gpu.memory_reserved_bytes = 1000, 300, 40
    got = ask(
        "a = n.nvmlDeviceGetMemoryInfo(gpus[0])\n"
        "b = n.nvmlDeviceGetMemoryInfo(gpus[0], n.nvmlMemory_v2)\n"
        "say([a.total, a.used, a.free], [b.total, b.used, b.reserved, b.free],"
        " code(n.nvmlDeviceGetMemoryInfo, gpus[0], 0x01000028))"
    )
    assert got == [[1000, 340, 660], [1000, 300, 40, 660], 25]


def test_processes_are_listed_with_their_memory(driver: FakeDriver, ask: Ask) -> None:
    driver.gpus[0].set_processes({4_711: 5_000, 815: 7_000})
    got = ask(
        "say([[[p.pid, p.usedGpuMemory] for p in"
        " n.nvmlDeviceGetComputeRunningProcesses(gpu)] for gpu in gpus])"
    )
    assert got == [[[4_711, 5_000], [815, 7_000]], []]


def test_link_errors_are_fields(driver: FakeDriver, ask: Ask) -> None:
    gpu = driver.gpus[0]
    gpu.replay_rollovers, gpu.link_recoveries = 2, 8
    gpu.set_pcie_error(173, 31)
    gpu.set_pcie_error(183, 41)
    got = ask(
        "say([v.value.uiVal for v in"
        " n.nvmlDeviceGetFieldValues(gpus[0], [95, 169, 173, 174, 183])])"
    )
    assert got == [2, 8, 31, 0, 41]


def test_the_link_belongs_to_the_gpu_and_not_to_its_mig_instances(
    driver: FakeDriver, ask: Ask
) -> None:
    gpu = driver.gpus[0]
    gpu.mig_enabled, gpu.mig_instances, gpu.memory_total_bytes = 1, 2, 1_000
    gpu.rx_bytes_per_second = 1_000_000_000
    got = ask(
        "g = gpus[0]\nmig = n.nvmlDeviceGetMigDeviceHandleByIndex(g, 1)\n"
        "say(n.nvmlDeviceGetMigMode(g), n.nvmlDeviceGetUUID(mig), n.nvmlDeviceGetName(mig),"
        " n.nvmlDeviceGetMemoryInfo(mig).total, n.nvmlDeviceGetGpuInstanceId(mig),"
        " n.nvmlDeviceGetIndex(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)),"
        " [code(n.nvmlDeviceGetMigDeviceHandleByIndex, g, 2),"
        " code(n.nvmlDeviceGetPcieThroughput, mig, 0),"
        " code(n.nvmlDeviceGetCurrPcieLinkWidth, mig),"
        " code(n.nvmlDeviceGetUtilizationRates, g), code(n.nvmlDeviceGetUtilizationRates, mig),"
        " n.nvmlDeviceGetFieldValues(mig, [197])[0].nvmlReturn],"
        " n.nvmlDeviceGetPcieThroughput(g, 1) > 0)"
    )
    assert got == [
        [1, 1],
        f"MIG-1-{gpu.uuid}",
        f"{gpu.name} MIG 1g",
        500,
        2,
        0,
        [6, 3, 3, 3, 3, 3],
        True,
    ]


def test_a_guest_sees_no_link(driver: FakeDriver, ask: Ask) -> None:
    driver.gpus[0].virtualization_mode = 2
    got = ask(
        "g = gpus[0]\nsay(n.nvmlDeviceGetVirtualizationMode(g),"
        " [code(n.nvmlDeviceGetPcieThroughput, g, 0), code(n.nvmlDeviceGetCurrPcieLinkWidth, g),"
        " code(n.nvmlGpmQueryDeviceSupport, g), code(n.nvmlDeviceGetPcieReplayCounter, g),"
        " n.nvmlDeviceGetFieldValues(g, [198])[0].nvmlReturn, code(n.nvmlDeviceGetName, g)])"
    )
    assert got == [2, [3, 3, 3, 3, 3, 0]]
