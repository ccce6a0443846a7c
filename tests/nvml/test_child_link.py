"""What the child says about links over a driver that works."""

from __future__ import annotations

import time

import pytest

from collector.nvml.messages import GpuState, LinkSample, Method
from lab.nvml.control import Group
from lab.nvml.driver import FakeDriver
from tests.nvml.running_child import RunningChild

RX, TX = 20_000_000_000, 7_000_000_000  # different on purpose: nvitop#176 had them swapped
KB_SPREAD = 0.024  # 1000 or 1024: nothing may rely on more


def limit_to(driver: FakeDriver, method: Method) -> None:
    """Let only a way and those after it work."""
    order = list(Method)
    for gpu in driver.gpus:
        gpu.supports_gpm_cumulative = order.index(method) < 1
        gpu.supports_gpm_rate = order.index(method) < 2
        gpu.supports_field_counter = order.index(method) < 3


def rates(sample: LinkSample) -> tuple[float, float]:
    assert sample.rx.bytes_per_second is not None, sample
    assert sample.tx.bytes_per_second is not None, sample
    return sample.rx.bytes_per_second, sample.tx.bytes_per_second


@pytest.mark.parametrize("method", Method)
def test_each_way_tells_directions_apart(driver: FakeDriver, method: Method) -> None:
    limit_to(driver, method)
    driver.gpus[0].set_rates(RX, TX)
    with RunningChild(driver) as child:
        *others, taken = child.greeting.gpus[0].probes
        time.sleep(0.2)
        sample = child.first_link()
    assert (taken.method, taken.outcome) == (method, "works")
    assert taken.cost_us is not None
    assert [probe.outcome for probe in others] == ["not supported by this GPU"] * len(others)
    assert (sample.state, sample.reason, sample.method) == (GpuState.OK, "", method)
    assert rates(sample) == pytest.approx((RX, TX), rel=KB_SPREAD + 0.1)
    is_counter = method in {Method.GPM_CUMULATIVE, Method.FIELD_COUNTER}
    assert (sample.rx.size_bytes is not None) == (sample.tx.size_bytes is not None) == is_counter


@pytest.mark.parametrize("method", [Method.GPM_CUMULATIVE, Method.FIELD_COUNTER])
def test_true_counters_count_every_byte_of_their_window(driver: FakeDriver, method: Method) -> None:
    limit_to(driver, method)
    gpu = driver.gpus[0]
    gpu.set_rates(RX, TX, on_us=30_000, period_us=150_000)
    with RunningChild(driver) as child:
        samples = child.links_apart(4, 0.2)
    for sample in samples:
        assert sample.window_us is not None
        assert sample.rx.coverage_ratio is not None
        start_us = sample.mono_us - sample.window_us
        slack_bytes = RX * 0.01 + RX * sample.window_us / 1e6 * (1 - sample.rx.coverage_ratio)
        for flow, truth in ((sample.rx, gpu.rx), (sample.tx, gpu.tx)):
            passed_bytes = truth.bytes_between(start_us, sample.mono_us)
            assert flow.size_bytes == pytest.approx(passed_bytes, abs=slack_bytes)


def test_throughput_sees_20_ms_each_way_of_its_window(driver: FakeDriver) -> None:
    limit_to(driver, Method.THROUGHPUT)
    driver.gpus[0].set_rates(RX, TX)
    with RunningChild(driver) as child:
        samples = child.links_apart(2, 0.2)
    for sample in samples:
        assert sample.window_us is not None
        assert sample.window_us >= 240_000  # the pause and both looks
        assert sample.rx.coverage_ratio == pytest.approx(20_000 / sample.window_us)
        assert sample.call_us >= 40_000  # 20 ms each way


def test_throughput_misses_what_happens_between_looks(driver: FakeDriver) -> None:
    """At 1 Hz it sees 2 % of the time; coverage says so, and no byte is made up."""
    limit_to(driver, Method.THROUGHPUT)
    with RunningChild(driver) as child:
        child.first_link()
        driver.gpus[0].set_rates(RX, TX)
        time.sleep(0.03)
        driver.gpus[0].set_rates(0, 0)
        sample = child.first_link()
    assert rates(sample) == (0, 0)
    assert sample.rx.coverage_ratio is not None
    assert sample.rx.coverage_ratio < 0.5


def test_gpm_is_not_asked_for_two_samples_within_100_ms(driver: FakeDriver) -> None:
    """Such samples gave invalid values on Hopper (DCGM#310): the one before is kept."""
    limit_to(driver, Method.GPM_RATE)
    driver.gpus[0].set_rates(RX, TX)
    with RunningChild(driver) as child:
        time.sleep(0.15)
        before = child.first_link()
        soon = child.first_link()
        time.sleep(0.15)
        after = child.first_link()
    assert soon.state is GpuState.OK
    assert "100 ms" in soon.reason
    assert soon.rx.bytes_per_second is None
    assert soon.window_us is None
    assert after.window_us == after.mono_us - before.mono_us
    assert rates(after) == pytest.approx((RX, TX), rel=0.1)


@pytest.mark.parametrize("value_type", [0, 3, 4])
def test_the_value_type_says_where_a_field_is(driver: FakeDriver, value_type: int) -> None:
    limit_to(driver, Method.FIELD_COUNTER)
    driver.gpus[0].field_value_type = value_type
    driver.gpus[0].set_rates(RX, TX)
    with RunningChild(driver) as child:
        time.sleep(0.2)
        sample = child.first_link()
    assert rates(sample) == pytest.approx((RX, TX), rel=0.1)


def test_a_counter_that_wraps_many_times_a_second_is_followed(driver: FakeDriver) -> None:
    """2**32 bytes pass in 153 ms at 28 GB/s: read as it stands, it is noise."""
    limit_to(driver, Method.FIELD_COUNTER)
    driver.gpus[0].generation = driver.gpus[0].max_generation = 4
    driver.gpus[0].set_rates(28_000_000_000, 19_000_000_000)
    with RunningChild(driver) as child:
        time.sleep(0.7)
        sample = child.first_link()
    assert sample.rx.coverage_ratio is not None
    assert sample.rx.coverage_ratio > 0.5
    assert sample.rx.size_bytes is not None
    assert sample.rx.size_bytes > 2 * 2**32
    assert rates(sample) == pytest.approx((28_000_000_000, 19_000_000_000), rel=0.1)


def test_a_counter_beyond_32_bits_needs_nobody_to_follow_it(driver: FakeDriver) -> None:
    limit_to(driver, Method.FIELD_COUNTER)
    gpu = driver.gpus[0]
    gpu.field_counter_bits, gpu.field_value_type = 64, 3
    gpu.rx.set_passed(1 << 40)
    gpu.tx.set_passed(1 << 33)
    gpu.set_rates(RX, TX)
    with RunningChild(driver) as child:
        calls = gpu.group_calls(Group.FIELDS)
        time.sleep(0.4)
        assert gpu.group_calls(Group.FIELDS) == calls
        sample = child.first_link()
    assert rates(sample) == pytest.approx((RX, TX), rel=0.1)
    assert sample.rx.coverage_ratio == 1


def test_following_too_dear_a_counter_is_cut_and_coverage_says_so(driver: FakeDriver) -> None:
    """5 ms of CPU a reading, 8 times a second, would be 4 % of a core for one GPU."""
    limit_to(driver, Method.FIELD_COUNTER)
    driver.delays_burn_cpu = 1
    driver.gpus[0].generation = driver.gpus[0].max_generation = 3
    driver.gpus[0].field_pair_cost_us = 5_000
    driver.gpus[0].set_rates(9_000_000_000, 5_000_000_000)
    with RunningChild(driver) as child:
        time.sleep(1.1)  # a first stretch, still without a rest
        child.first_link()
        calls = driver.gpus[0].group_calls(Group.FIELDS)
        time.sleep(1.1)
        sample = child.first_link()
        readings = driver.gpus[0].group_calls(Group.FIELDS) - calls
    assert readings <= 6  # two a second and ours, where 9 would follow it without a rest
    assert sample.rx.coverage_ratio is not None
    assert 0 < sample.rx.coverage_ratio < 0.7
    assert rates(sample) == pytest.approx((9_000_000_000, 5_000_000_000), rel=0.2)


def test_an_idle_link_steps_down_and_nothing_is_wrong(driver: FakeDriver) -> None:
    """It was taken for a riser's fault (janhq/jan#183) and for downtrained (nvtop#6)."""
    limit_to(driver, Method.FIELD_COUNTER)
    driver.gpus[0].idle_generation = 1
    with RunningChild(driver) as child:
        idle = child.links_apart(7, 0.02)
        driver.gpus[0].set_rates(RX, TX)
        (busy,) = child.links_apart(1)
    assert {(sample.state, sample.generation) for sample in idle} == {(GpuState.OK, 1)}
    assert {rates(sample) for sample in idle} == {(0, 0)}
    assert (busy.generation, busy.width) == (5, 16)


def test_a_link_that_changes_during_the_reading_is_told(driver: FakeDriver) -> None:
    limit_to(driver, Method.THROUGHPUT)
    driver.gpus[0].throughput_block_us = 100_000
    with RunningChild(driver) as child:
        child.say_and_wait("link", driver.gpus[0], Group.THROUGHPUT)
        driver.gpus[0].generation, driver.gpus[0].width = 3, 8
        sample = child.hear_link().samples[0]
        settled = child.first_link()
    assert sample.link_changed
    assert (sample.generation, sample.width) == (3, 8)
    assert not settled.link_changed


def test_all_gpus_are_read_at_the_same_time(driver: FakeDriver) -> None:
    """Eight in a row would take 330 ms, and each its own moment."""
    limit_to(driver, Method.THROUGHPUT)
    for gpu in driver.gpus:
        gpu.throughput_block_us = 100_000
    with RunningChild(driver) as child:
        samples = child.link().samples
    assert len(samples) == 2
    assert abs(samples[0].mono_us - samples[1].mono_us) < 200_000


def test_a_link_that_is_down_or_unknown_has_no_numbers(driver: FakeDriver) -> None:
    gpu = driver.gpus[0]
    gpu.max_generation, gpu.max_width = 0, 255
    with RunningChild(driver) as child:
        facts = child.greeting.gpus[0]
        gpu.generation, gpu.width = 0, 255
        sample = child.first_link()
    assert (facts.max_generation, facts.max_width) == (None, None)
    assert (sample.generation, sample.width) == (None, None)


@pytest.mark.parametrize("method", [Method.GPM_CUMULATIVE, Method.FIELD_COUNTER])
def test_a_counter_that_fell_says_so(driver: FakeDriver, method: Method) -> None:
    """As after the driver was loaded anew: no growth is made up, nor is it called a blank."""
    limit_to(driver, method)
    gpu = driver.gpus[0]
    gpu.field_counter_bits, gpu.field_value_type = 64, 3  # unsigned long long
    gpu.rx.set_passed(1 << 42)
    gpu.tx.set_passed(1 << 41)
    with RunningChild(driver) as child:
        child.links_apart(2)
        gpu.rx.set_passed(1 << 36)
        gpu.tx.set_passed(1 << 35)
        fell = child.links_apart(1)[0]
        after = child.links_apart(2)[-1]
    assert (fell.rx.size_bytes, fell.tx.bytes_per_second) == (None, None)
    assert "reset" in fell.reason
    assert after.reason == ""


@pytest.mark.parametrize("field", ["name", "uuid", "bus_id"])
def test_a_text_that_is_no_utf8_costs_no_gpu(driver: FakeDriver, field: str) -> None:
    """The binding decodes each text, and would lose the GPU for a letter."""
    setattr(driver.gpus[0].control, field, b"GPU-\xe9")
    with RunningChild(driver) as child:
        facts = child.greeting.gpus[0]
        sample = child.links_apart(1)[0]
    assert sample.state is facts.link_state is GpuState.OK
    assert facts.model == (
        "GPU-\N{REPLACEMENT CHARACTER}" if field == "name" else driver.gpus[0].name
    )
    assert (facts.uuid == "GPU-\N{REPLACEMENT CHARACTER}") == (field == "uuid")
    assert (facts.pci_address is None) == (field == "bus_id")
