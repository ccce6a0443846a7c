from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from collector.gpu_link import GpuLink
from collector.gpu_requests import GpuRequests
from collector.gpu_state import GpuStateSource, fit
from collector.nvml.messages import GpuFacts, GpuState, Trouble, TroubleKind
from collector.source import NoData, Reading, Row, State
from stallscope.schema import table
from stallscope.storage.rows import to_batch
from tests.collector.fake_machine import FakeMachine, refusal_of
from tests.collector.nvml_answers import ScriptedDriver, facts, greeting, link, state
from tests.collector.stand_ins import SECOND


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path / "machine")


def _read(source: GpuStateSource) -> tuple[Sequence[Row], Reading]:
    reading = source.read()
    assert isinstance(reading, Reading), reading
    rows = reading.rows["gpu_state"]
    assert isinstance(rows, Sequence)
    to_batch("gpu_state", rows)
    return rows, reading


def _driver(*gpus: GpuFacts, **changes: object) -> ScriptedDriver:
    listed = gpus or (facts(),)
    return ScriptedDriver(
        greeting(*listed), states=[[state(gpu.uuid, **changes) for gpu in listed]]
    )


def test_values_come_as_they_are_and_what_is_missing_is_null(fake: FakeMachine) -> None:
    [row], reading = _read(GpuStateSource(fake.machine, _driver(reason="no ECC")))
    assert (row["state"], row["reason"]) == ("ok", "no ECC")
    assert (row["sm_clock_mhz"], row["power_watts"]) == (1980, 312.5)
    assert "ecc_corrected" not in row
    assert (row["processes"], row["call_us"], row["window_us"]) == (1, 400, SECOND)
    assert (reading.reason, reading.rejects) == ("", 0)


def test_every_column_of_the_table_can_be_told(fake: FakeMachine) -> None:
    own = {"wall_us", "mono_us", "device", "window_us", "state", "call_us", "reason"}
    values = {
        column.name: float(number)
        for number, column in enumerate(table("gpu_state").columns)
        if column.name not in own
    }
    [row], _ = _read(GpuStateSource(fake.machine, _driver(values=values)))
    assert {name: row[name] for name in values} == values


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("sm_clock_mhz", 1980.0, 1980),
        ("sm_clock_mhz", -1.0, None),
        ("sm_clock_mhz", 2.0**32, None),
        ("power_watts", math.nan, None),
        ("power_watts", math.inf, None),
        ("temperature_celsius", -12.0, -12.0),
        ("memory_used_bytes", 80.0 * 2**30, 80 * 2**30),
        ("memory_used_bytes", 2.0**64, None),
    ],
)
def test_a_value_that_cannot_be_is_null(column: str, value: float, stored: float | None) -> None:
    assert fit(column, value) == stored


def test_values_that_are_refused_are_counted(fake: FakeMachine) -> None:
    driver = _driver(values={"power_watts": math.inf, "sm_clock_mhz": 900.0, "made_up": 1.0})
    [row], reading = _read(GpuStateSource(fake.machine, driver))
    assert (row["power_watts"], row["sm_clock_mhz"]) == (None, 900)
    assert reading.rejects == 2


def test_one_lost_gpu_leaves_the_other(fake: FakeMachine) -> None:
    driver = _driver(facts(0), facts(1))
    lost = state("GPU-1", state=GpuState.GPU_LOST, reason="GPU is lost (15)", values={})
    driver.states = [[state("GPU-0"), lost]]
    rows, reading = _read(GpuStateSource(fake.machine, driver))
    assert [row["state"] for row in rows] == ["ok", "gpu_lost"]
    assert (rows[0]["processes"], rows[1].get("processes")) == (1, None)
    assert reading.reason == "1 of 2 GPUs, lost: GPU-1; GPU-1: GPU is lost (15)"


def test_a_gpu_without_an_answer_has_a_row_that_says_so(fake: FakeMachine) -> None:
    driver = _driver(facts(0), facts(1))
    driver.states = [[state("GPU-0")]]
    rows, _ = _read(GpuStateSource(fake.machine, driver))
    assert (rows[1]["state"], rows[1]["reason"]) == ("gpu_lost", "the driver gave no answer for it")


def test_a_divided_gpu_has_no_utilisation_and_that_is_no_zero(fake: FakeMachine) -> None:
    driver = _driver(values={"sm_clock_mhz": 1095.0}, reason="utilisation: divided by MIG")
    [row], _ = _read(GpuStateSource(fake.machine, driver))
    assert row.get("utilisation_ratio") is None
    assert "MIG" in str(row["reason"])


def test_who_computes_where_is_kept_for_the_topology(fake: FakeMachine) -> None:
    driver = _driver(facts(0), facts(1))
    driver.states = [[state("GPU-0"), state("GPU-1", compute_pids=(4802, 4803))]]
    source = GpuStateSource(fake.machine, driver)
    assert (source.gpu_processes(), source.gpus()) == ({}, [])
    _read(source)
    assert source.gpu_processes() == {"GPU-0": (4801,), "GPU-1": (4802, 4803)}
    assert [gpu.pci_address for gpu in source.gpus()] == ["0000:1b:00.0", "0000:1c:00.0"]


def test_both_sources_give_a_gpu_one_id_and_one_row_of_facts(fake: FakeMachine) -> None:
    driver = _driver()
    driver.links = [[link()]]
    [row], _ = _read(GpuStateSource(fake.machine, driver))
    reading = GpuLink(fake.machine, driver).read()
    assert isinstance(reading, Reading)
    [other] = reading.rows["gpu_link"]
    assert isinstance(other, dict)
    assert other["device"] == row["device"]
    assert len(fake.store.stored["device"]) == 1


def test_a_new_driver_is_a_new_row_of_the_same_gpu(fake: FakeMachine) -> None:
    driver = _driver()
    source = GpuStateSource(fake.machine, driver)
    _read(source)
    driver.greeting = greeting(facts(driver="590.48.01"))
    _read(source)
    stored = fake.store.stored["device"]
    assert [row["driver"] for row in stored] == ["580.95.05", "590.48.01"]
    assert len({row["device"] for row in stored}) == 1


def test_without_a_driver_there_is_a_calm_answer(fake: FakeMachine) -> None:
    trouble = Trouble(TroubleKind.NO_LIBRARY, "libnvidia-ml.so.1: cannot open shared object file")
    driver = ScriptedDriver(greeting(), trouble=trouble)
    answer = refusal_of(GpuStateSource(fake.machine, driver))
    assert answer == NoData(State.NOT_FOUND, trouble.text)


def test_it_lets_go_of_the_driver_as_well(fake: FakeMachine) -> None:
    requests, driver = GpuRequests(), _driver()
    requests.release(5, fake.clock.mono_us)
    source = GpuStateSource(fake.machine, driver, requests=requests)
    assert refusal_of(source).state is State.DISABLED
    assert (driver.rests, driver.asked) == (1, 0)


def test_a_burst_is_for_the_link_alone_and_a_slow_driver_slows_both(fake: FakeMachine) -> None:
    requests, driver = GpuRequests(), _driver(call_us=300_000)
    requests.burst(5, fake.clock.mono_us)
    source = GpuStateSource(fake.machine, driver, requests=requests)
    assert source.interval_us == SECOND
    _, reading = _read(source)
    assert source.interval_us == 2 * SECOND
    assert "every 2 s" in reading.reason
    source.close()
    assert driver.left == 1


def test_a_gpu_that_may_not_be_opened_is_not_called_lost(fake: FakeMachine) -> None:
    kept = facts(uuid="", link_state=GpuState.NO_PERMISSION, link_reason="may not")
    driver = ScriptedDriver(greeting(kept), states=[[]])
    reading = GpuStateSource(fake.machine, driver).read()
    assert isinstance(reading, Reading)
    [row] = list(reading.rows["gpu_state"])
    assert (row["state"], row["reason"]) == ("no_permission", "may not")
    assert "lost" not in reading.reason
