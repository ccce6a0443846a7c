"""What the real binding reads of a link's traffic, four ways."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import pytest

from lab.nvml.driver import FakeDriver
from lab.nvml.gpu import Blank

Ask = Callable[[str], Any]

RX, TX = 1_300_000_000, 410_000_000
MIB = 1_048_576


def test_throughput_names_the_directions_as_the_gpu_sees_them(driver: FakeDriver, ask: Ask) -> None:
    driver.gpus[1].set_rates(rx=RX, tx=TX)
    began_ns = time.monotonic_ns()
    tx, rx, other = ask(
        "say(n.nvmlDeviceGetPcieThroughput(gpus[1], n.NVML_PCIE_UTIL_TX_BYTES),"
        " n.nvmlDeviceGetPcieThroughput(gpus[1], n.NVML_PCIE_UTIL_RX_BYTES),"
        " n.nvmlDeviceGetPcieThroughput(gpus[0], n.NVML_PCIE_UTIL_RX_BYTES))"
    )
    assert time.monotonic_ns() - began_ns > 60_000_000, "three windows of 20 ms, none shared"
    assert tx * 1024 == pytest.approx(TX, abs=2_048)
    assert rx * 1024 == pytest.approx(RX, abs=2_048)
    assert other == 0


def test_throughput_is_the_mean_of_its_window(driver: FakeDriver, ask: Ask) -> None:
    """Bursts of 5 ms in every 10 ms are half the rate over any 20 ms, whenever it begins."""
    driver.gpus[0].set_rates(rx=RX, tx=TX, on_us=5_000, period_us=10_000)
    rx = ask("say(n.nvmlDeviceGetPcieThroughput(gpus[0], 1))")
    assert rx * 1024 == pytest.approx(RX / 2, rel=0.25)  # the window is 20 ms and a late wake-up


def test_what_the_driver_takes_for_a_kb_can_be_set(driver: FakeDriver, ask: Ask) -> None:
    driver.throughput_unit_bytes = 1000
    driver.gpus[0].rx_bytes_per_second = RX
    assert ask("say(n.nvmlDeviceGetPcieThroughput(gpus[0], 1))") == pytest.approx(RX / 1000, abs=2)


def test_byte_counters_are_fields_197_from_the_gpu_and_198_to_it(
    driver: FakeDriver, ask: Ask
) -> None:
    driver.gpus[0].tx.set_passed(4_000)
    driver.gpus[0].rx.set_passed(9_000)
    fields = ask(
        "say([[v.fieldId, v.nvmlReturn, v.valueType, v.value.uiVal, v.latencyUsec]"
        " for v in n.nvmlDeviceGetFieldValues(gpus[0], [197, 198])])"
    )
    assert fields == [[197, 0, 1, 4_000, 150], [198, 0, 1, 9_000, 150]]


@pytest.mark.parametrize(("bits", "expected"), [(32, 7), (64, 2**32 + 7)])
def test_a_counter_of_32_bits_wraps(driver: FakeDriver, ask: Ask, bits: int, expected: int) -> None:
    gpu = driver.gpus[0]
    gpu.field_counter_bits, gpu.field_value_type = bits, 3
    gpu.tx.set_passed(2**32 + 7)
    assert ask("say(n.nvmlDeviceGetFieldValues(gpus[0], [197])[0].value.ullVal)") == expected


def test_only_the_member_that_the_type_names_holds_the_value(driver: FakeDriver, ask: Ask) -> None:
    driver.gpus[0].tx.set_passed(4_000)
    whole, half = ask(
        "v = n.nvmlDeviceGetFieldValues(gpus[0], [197])[0].value\nsay(v.ullVal, v.uiVal)"
    )
    assert half == 4_000
    assert whole != 4_000, "who reads 64 bits of a 32-bit value must notice"


def test_a_field_fails_within_a_call_that_succeeds(driver: FakeDriver, ask: Ask) -> None:
    driver.gpus[0].supports_field_counter = 0
    driver.gpus[0].replay_counter = 3
    driver.gpus[1].field_counter_error = 4
    verdicts = (
        "say([[v.nvmlReturn for v in n.nvmlDeviceGetFieldValues(gpu, [197, 198, 94, 9999])]"
        " for gpu in gpus])"
    )
    assert ask(verdicts) == [[3, 3, 0, 3], [4, 4, 0, 3]]


def test_counters_are_exact_while_rates_change(driver: FakeDriver) -> None:
    """Every reading lies between what had truly passed before the call and after it."""
    gpu = driver.gpus[0]
    gpu.field_counter_bits, gpu.field_value_type, gpu.field_pair_cost_us = 64, 3, 0
    program = """
import json, pynvml as n, time
n.nvmlInit()
gpu = n.nvmlDeviceGetHandleByIndex(0)
rows, end = [], time.monotonic() + 0.3
while time.monotonic() < end:
    before = time.monotonic_ns()
    tx, rx = (v.value.ullVal for v in n.nvmlDeviceGetFieldValues(gpu, [197, 198]))
    rows.append((before, rx, tx, time.monotonic_ns()))
print(json.dumps(rows[-2000:]))
"""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(
            [sys.executable, "-c", program], env=driver.environment, stdout=out
        )
        step = 0
        while child.poll() is None:
            step += 1
            gpu.set_rates(rx=step % 7 * 9_000_000_000, tx=step % 3 * 5_000_000_000)
        out.seek(0)
        rows = json.load(out)
    assert len(rows) > 100
    for before_ns, rx, tx, after_ns in rows:
        assert gpu.rx.passed_bytes(before_ns) <= rx <= gpu.rx.passed_bytes(after_ns)
        assert gpu.tx.passed_bytes(before_ns) <= tx <= gpu.tx.passed_bytes(after_ns)
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)


def test_broken_sources_stand_still_while_throughput_moves(driver: FakeDriver, ask: Ask) -> None:
    for gpu in driver.gpus:
        gpu.set_rates(rx=RX, tx=TX)
    driver.gpus[0].broken_gpm_zero = driver.gpus[0].broken_field_zero = 1
    driver.gpus[1].broken_gpm_frozen = driver.gpus[1].broken_field_frozen = 1
    program = """
def look(gpu):
    return ([v.value.uiVal for v in n.nvmlDeviceGetFieldValues(gpu, [197, 198])],
            [value for _, value in gpm(gpu, 20, 21, 255, 256)])
say([[look(gpu), look(gpu), n.nvmlDeviceGetPcieThroughput(gpu, 1)] for gpu in gpus])
"""
    (zero, zero_again, moving), (frozen, frozen_again, moving_too) = ask(program)
    assert zero == zero_again == [[0, 0], [0, 0, 0, 0]]
    assert frozen == frozen_again
    assert 0 not in frozen[0] + frozen[1]
    assert moving > 0
    assert moving_too > 0


@pytest.mark.parametrize(
    ("blank", "narrow", "wide", "amount"),
    [
        (Blank.ALL_ONES, 2**32 - 1, 2**64 - 1, "nan"),
        (Blank.DCGM, 0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, "140737488355328.0"),
        (Blank.NEAR_TOP, 2**32 - 16, 2**64 - 16, "inf"),
    ],
)
def test_blanks_take_the_place_of_values(
    driver: FakeDriver, ask: Ask, blank: Blank, narrow: int, wide: int, amount: str
) -> None:
    gpu = driver.gpus[0]
    gpu.blank_sentinel, gpu.field_value_type = blank, 3
    got = ask(
        "say(n.nvmlDeviceGetPcieThroughput(gpus[0], 0), n.nvmlDeviceGetPowerUsage(gpus[0]),"
        " n.nvmlDeviceGetFieldValues(gpus[0], [198])[0].value.ullVal,"
        " n.nvmlDeviceGetMemoryInfo(gpus[0]).used, str(gpm(gpus[0], 21)[0][1]))"
    )
    assert got == [narrow, narrow, wide, wide, amount]


def test_nvlink_and_c2c_have_counters_of_their_own(driver: FakeDriver, ask: Ask) -> None:
    gpu = driver.gpus[0]
    gpu.supports_nvlink, gpu.c2c_enabled, gpu.c2c_links = 1, 1, 10
    gpu.nvlink_tx.set_passed(18 * 1024 * 50)
    gpu.nvlink_rx.set_passed(18 * 1024 * 90)
    gpu.c2c_tx.bytes_per_second = 40 * MIB
    gpu.c2c_rx.bytes_per_second = 80 * MIB
    totals = "say([v.value.ullVal for v in n.nvmlDeviceGetFieldValues(gpus[0], WANTED)])"
    both = "[(138, 0xFFFFFFFF), (139, 0xFFFFFFFF), (138, 0), (139, 3)]"
    assert ask(totals.replace("WANTED", both)) == [900, 1620, 50, 90]
    rates = ask("say([value for _, value in gpm(gpus[0], 100, 101, 102, 103, 20)])")
    assert rates == pytest.approx([50, 100, 40, 80, 0], rel=1e-4)
    assert ask("say(n.nvmlDeviceGetC2cModeInfoV(gpus[0]).isC2cEnabled)") == 1
