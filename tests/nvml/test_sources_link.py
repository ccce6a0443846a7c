from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.nvml.driver import FakeDriver
from tests.nvml.sources import GB, Host, open_host

pytestmark = pytest.mark.usefixtures("fake_nvml")

_METHODS = ("gpm_cumulative", "gpm_rate", "field_counter", "throughput")


@pytest.fixture
def host(driver: FakeDriver, tmp_path: Path) -> Iterator[Host]:
    made = open_host(driver, tmp_path)
    yield made
    made.close()


def _allow_only(driver: FakeDriver, method: str) -> None:
    """Take away every better way of measuring than this one."""
    for gpu in driver.gpus:
        for better in _METHODS[: _METHODS.index(method)]:
            setattr(gpu, f"supports_{better}", 0)


@pytest.mark.parametrize("method", _METHODS)
def test_what_goes_to_the_gpu_is_rx_whichever_way_it_is_measured(
    host: Host, driver: FakeDriver, method: str
) -> None:
    """TX is what the GPU sends (XuehaiPan/nvitop#176 had them swapped)."""
    _allow_only(driver, method)
    driver.gpus[0].set_rates(rx=9 * GB, tx=2 * GB)
    driver.gpus[1].set_rates(rx=1 * GB, tx=6 * GB)
    first, second = host.poll(polls=3)
    assert (first["method"], second["method"]) == (method, method)
    for row, rx, tx in ((first, 9, 2), (second, 1, 6)):
        assert row["rx_window_mean_bytes_per_second"] == pytest.approx(rx * GB, rel=0.1)
        assert row["tx_window_mean_bytes_per_second"] == pytest.approx(tx * GB, rel=0.1)
        assert row["rx_raw_ratio"] == pytest.approx(rx / 63.015, rel=0.1)
        assert row["tx_raw_ratio"] == pytest.approx(tx / 63.015, rel=0.1)
        assert (row["state"], row["both_busy"], row["link_downtrained"]) == ("ok", False, False)


@pytest.mark.parametrize("method", ["gpm_cumulative", "field_counter"])
def test_a_true_counter_gives_the_bytes_of_its_window(
    host: Host, driver: FakeDriver, method: str
) -> None:
    _allow_only(driver, method)
    driver.gpus[0].set_rates(rx=5 * GB, tx=1 * GB)
    row, _ = host.poll(polls=2)
    end, window, coverage = row["mono_us"], row["window_us"], row["coverage_ratio"]
    assert isinstance(end, int)
    assert isinstance(window, int)
    assert isinstance(coverage, float)  # below 1 where wraps could not be told apart in time
    for way, flow in (("rx", driver.gpus[0].rx), ("tx", driver.gpus[0].tx)):
        counted = flow.bytes_between(end - window, end) * coverage
        assert row[f"{way}_bytes"] == pytest.approx(counted, rel=0.05)


def test_a_short_look_has_a_rate_but_no_bytes(host: Host, driver: FakeDriver) -> None:
    _allow_only(driver, "throughput")
    driver.gpus[0].set_rates(rx=5 * GB, tx=1 * GB)
    row, _ = host.poll(polls=2)
    assert (row["rx_bytes"], row["tx_bytes"]) == (None, None)
    coverage = row["coverage_ratio"]
    assert isinstance(coverage, float)
    assert coverage < 0.2


def test_a_counter_of_32_bits_may_wrap(host: Host, driver: FakeDriver) -> None:
    _allow_only(driver, "field_counter")
    gpu = driver.gpus[0]
    gpu.set_rates(rx=12 * GB, tx=1 * GB)  # wraps three times a second
    rows = [host.poll()[0] for _ in range(4)]
    for row in rows[1:]:
        assert row["rx_window_mean_bytes_per_second"] == pytest.approx(12 * GB, rel=0.1)
        assert row["tx_window_mean_bytes_per_second"] == pytest.approx(1 * GB, rel=0.1)


def test_a_rate_that_the_link_cannot_carry_is_dropped(host: Host, driver: FakeDriver) -> None:
    for gpu in driver.gpus:
        gpu.set_rates(rx=9 * GB, tx=1 * GB)
    driver.gpus[0].generation = 1  # 4 GB/s
    reading = host.reading(2)
    first, second = reading.rows["gpu_link"]
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert first.get("rx_window_mean_bytes_per_second") is None
    assert "gen 1 x16 carries 4" in str(first["reason"])
    assert reading.rejects == 1
    assert second["rx_window_mean_bytes_per_second"] == pytest.approx(9 * GB, rel=0.1)


def test_a_link_that_is_stuck_under_load_is_said_to_be(host: Host, driver: FakeDriver) -> None:
    gpu = driver.gpus[0]
    gpu.generation = 3
    gpu.set_rates(rx=11 * GB, tx=1 * GB)
    assert host.poll(polls=4)[0]["link_downtrained"] is True
    gpu.generation = 5
    assert host.poll(polls=2)[0]["link_downtrained"] is False


def test_an_idle_link_that_steps_down_is_not(host: Host, driver: FakeDriver) -> None:
    for gpu in driver.gpus:
        gpu.idle_generation = 1
    row, _ = host.poll(polls=5)
    assert (row["link_generation"], row["max_link_generation"]) == (1, 5)
    assert row["link_downtrained"] is None
    assert row["rx_saturation_ratio"] == 0


def test_a_source_that_stands_still_is_left_and_said_to_be_broken(
    host: Host, driver: FakeDriver
) -> None:
    """Constant zero while another source moves (NVIDIA/dcgm-exporter#721)."""
    gpu = driver.gpus[0]
    gpu.broken_gpm_zero = 1
    gpu.set_rates(rx=8 * GB, tx=2 * GB)
    seen = [host.reading().rows for _ in range(14)]
    states = [str(rows["gpu_link"][0]["state"]) for rows in seen]
    assert "source_broken" in states
    last = seen[-1]["gpu_link"][0]
    assert last["method"] == "field_counter"
    assert last["rx_window_mean_bytes_per_second"] == pytest.approx(8 * GB, rel=0.1)
    outcomes = {str(row["outcome"]) for rows in seen for row in rows["probe_result"]}
    assert any("broken" in outcome for outcome in outcomes)


def test_the_parts_of_a_divided_gpu_have_rows_of_their_own(
    driver: FakeDriver, tmp_path: Path
) -> None:
    driver.gpus[0].mig_enabled = 1
    driver.gpus[0].mig_instances = 2
    driver.gpus[0].set_rates(rx=3 * GB, tx=1 * GB)
    host = open_host(driver, tmp_path)
    try:
        rows = host.poll(polls=2)
        assert [row["state"] for row in rows] == ["ok", "not_applicable", "not_applicable", "ok"]
        assert rows[0]["rx_window_mean_bytes_per_second"] == pytest.approx(3 * GB, rel=0.1)
        assert rows[1].get("rx_window_mean_bytes_per_second") is None
        roles = [row["role"] for row in host.store.stored["device"]]
        assert sorted(map(str, roles)) == ["gpu", "gpu", "mig", "mig"]
    finally:
        host.close()
