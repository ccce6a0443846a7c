"""What the real binding reads of GPM, on drivers new and old."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lab.nvml.driver import FakeDriver

Ask = Callable[[str], Any]

RX, TX = 1_300_000_000, 410_000_000
MIB = 1_048_576


def test_gpm_rates_are_mib_per_second(driver: FakeDriver, ask: Ask) -> None:
    driver.gpus[0].set_rates(rx=RX, tx=TX)
    (tx_code, tx), (rx_code, rx) = ask("say(gpm(gpus[0], 20, 21))")
    assert (tx_code, rx_code) == (0, 0)
    assert tx * MIB == pytest.approx(TX, rel=1e-6)
    assert rx * MIB == pytest.approx(RX, rel=1e-6)


def test_gpm_rates_of_samples_that_lie_too_close_are_wrong_and_nothing_says_so(
    driver: FakeDriver, ask: Ask
) -> None:
    driver.gpus[0].rx_bytes_per_second = RX
    ((code, rx),) = ask(
        """
took = 1
while took > 0.09:  # a busy machine may wake us late
    began = time.monotonic()
    found = gpm(gpus[0], 21, pause=0.005)
    took = time.monotonic() - began
say(found)
"""
    )
    assert code == 0
    assert rx * MIB == pytest.approx(10 * RX, rel=1e-6)


def test_gpm_totals_are_bytes_and_need_a_new_driver(driver: FakeDriver, ask: Ask) -> None:
    driver.gpus[0].tx.set_passed(3_000_000_000_000)
    driver.gpus[0].rx.set_passed(5_000_000_000_000)
    assert ask("say(gpm(gpus[0], 255, 256))") == [
        [0, 3_000_000_000_000],
        [0, 5_000_000_000_000],
    ]
    driver.gpm_metric_end = 210  # as of NVML 12.9
    assert [code for code, _ in ask("say(gpm(gpus[0], 255, 20))")] == [2, 0]


def test_gpm_fails_by_metric_or_as_a_whole(driver: FakeDriver, ask: Ask) -> None:
    driver.gpus[0].supports_gpm_cumulative = 0
    driver.gpus[1].gpm_metric_error = 4
    verdicts = "say([[code for code, _ in gpm(gpu, 20, 255)] for gpu in gpus])"
    assert ask(verdicts) == [[0, 3], [4, 4]]
    driver.gpus[1].supports_gpm_rate = driver.gpus[1].supports_gpm_cumulative = 0
    assert ask(
        "sample = n.nvmlGpmSampleAlloc()\n"
        "say(n.nvmlGpmQueryDeviceSupport(gpus[1]).isSupportedDevice,"
        " code(n.nvmlGpmSampleGet, gpus[1], sample))"
    ) == [0, 3]


def test_the_short_gpm_struct_of_nvml_12_is_not_overrun(ask: Ask) -> None:
    """8424 bytes for 210 metrics, under the version word of today's 19104 bytes."""
    program = """
import ctypes
class Short(ctypes.Structure):
    _fields_ = n.c_nvmlGpmMetricsGet_t._fields_[:4] + [
        ("metrics", n.c_nvmlGpmMetric_t * 210), ("guard", ctypes.c_ubyte * 12000)]
first, second = n.nvmlGpmSampleAlloc(), n.nvmlGpmSampleAlloc()
n.nvmlGpmSampleGet(gpus[0], first)
time.sleep(0.002)
n.nvmlGpmSampleGet(gpus[0], second)
request = Short(1, 210, first, second)
for place in range(210):
    request.metrics[place].metricId = place
n.nvmlGpmMetricsGet(request)
say(Short.guard.offset, bytes(request.guard).count(0), request.metrics[209].nvmlReturn)
"""
    assert ask(program) == [8424, 12000, 3]


@pytest.mark.parametrize(("version", "count", "expected"), [(2, 1, 25), (1, 478, 2), (1, 1, 0)])
def test_a_gpm_request_of_another_version_or_length_is_refused(
    ask: Ask, version: int, count: int, expected: int
) -> None:
    program = f"""
first, second = n.nvmlGpmSampleAlloc(), n.nvmlGpmSampleAlloc()
n.nvmlGpmSampleGet(gpus[0], first)
time.sleep(0.002)
n.nvmlGpmSampleGet(gpus[0], second)
request = n.c_nvmlGpmMetricsGet_t()
request.version, request.numMetrics = {version}, {count}
request.sample1, request.sample2 = first, second
say(code(n.nvmlGpmMetricsGet, request))
"""
    assert ask(program) == expected


def test_gpm_of_a_mig_instance_has_no_link(driver: FakeDriver, ask: Ask) -> None:
    """PCIe metrics are not available by instance (NVIDIA/DCGM#88)."""
    gpu = driver.gpus[0]
    gpu.mig_enabled, gpu.mig_instances, gpu.utilisation_percent = 1, 2, 35
    program = """
take = n.nvmlGpmSampleGet
n.nvmlGpmSampleGet = lambda gpu, sample: n.nvmlGpmMigSampleGet(gpu, 1, sample)
by_instance = gpm(gpus[0], 2, 20, 255)
n.nvmlGpmSampleGet = take
say(by_instance[0], [code for code, _ in by_instance], [code for code, _ in gpm(gpus[0], 20)])
"""
    assert ask(program) == [[0, 35], [0, 3, 3], [0]]
