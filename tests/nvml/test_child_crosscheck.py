"""Counters that do not count: the child compares them with what else it can see."""

from __future__ import annotations

import pytest

from collector.nvml.messages import GpuState, LinkSample, Method
from lab.nvml.control import Group
from lab.nvml.driver import FakeDriver
from lab.nvml.gpu import FakeGpu
from tests.nvml.running_child import GPM_PAUSE_S, RunningChild

RX, TX = 20_000_000_000, 7_000_000_000


def only_fields(gpu: FakeGpu) -> None:
    gpu.supports_gpm_cumulative = gpu.supports_gpm_rate = 0


def until_broken(child: RunningChild, pause_s: float = GPM_PAUSE_S) -> list[LinkSample]:
    samples: list[LinkSample] = []
    while len(samples) < 9:
        samples += child.links_apart(1, pause_s)
        if samples[-1].state is GpuState.SOURCE_BROKEN:
            return samples
    raise AssertionError(samples)


@pytest.mark.parametrize(
    ("method", "fault"),
    [(Method.GPM_CUMULATIVE, "broken_gpm_zero"), (Method.GPM_RATE, "broken_gpm_frozen")],
)
def test_gpm_that_stands_still_while_bytes_pass_is_left(
    driver: FakeDriver, method: Method, fault: str
) -> None:
    """dcgm-exporter#721: zero for hours, said to be idle. #164: frozen at the last value."""
    gpu = driver.gpus[0]
    gpu.supports_gpm_cumulative = method is Method.GPM_CUMULATIVE
    gpu.supports_gpm_rate = method is Method.GPM_RATE
    gpu.set_rates(RX, TX)
    setattr(gpu, fault, 1)
    with RunningChild(driver) as child:
        *before, broken = until_broken(child)
        (after,) = child.links_apart(1, 0.2)
    assert len(before) >= 4  # three to suspect it, and one contradiction is not enough
    assert {sample.state for sample in before} == {GpuState.OK}
    assert (broken.method, broken.rx.bytes_per_second) == (method, None)
    assert "source broken" in broken.reason
    outcomes = {probe.method: probe.outcome for probe in broken.probes}
    assert "source broken" in outcomes[method]
    assert outcomes[Method.FIELD_COUNTER] == "works"
    assert (after.state, after.method) == (GpuState.OK, Method.FIELD_COUNTER)
    assert after.rx.bytes_per_second == pytest.approx(RX, rel=0.05)


@pytest.mark.parametrize("fault", ["broken_field_zero", "broken_field_frozen"])
def test_fields_that_stand_still_while_bytes_pass_are_left(driver: FakeDriver, fault: str) -> None:
    gpu = driver.gpus[0]
    only_fields(gpu)
    gpu.set_rates(RX, TX)
    setattr(gpu, fault, 1)
    with RunningChild(driver) as child:
        until_broken(child, 0.02)
        (after,) = child.links_apart(1)
        other = child.link().samples[1]
    assert (after.state, after.method) == (GpuState.OK, Method.THROUGHPUT)
    assert after.rx.bytes_per_second == pytest.approx(RX, rel=0.05)
    assert (other.state, other.method) == (GpuState.OK, Method.GPM_CUMULATIVE)


def test_one_direction_that_stands_still_is_enough(driver: FakeDriver) -> None:
    """Only RX moves at first; once TX moves, too, a counter that counts shows it."""
    only_fields(driver.gpus[0])
    driver.gpus[0].set_rates(RX, 0)
    with RunningChild(driver) as child:
        samples = child.links_apart(6, 0.02)
        driver.gpus[0].set_rates(RX, TX)
        samples += child.links_apart(2, 0.1)
    assert {sample.state for sample in samples} == {GpuState.OK}
    assert samples[-1].tx.bytes_per_second == pytest.approx(TX, rel=0.05)


def test_an_idle_link_is_compared_more_and_more_rarely(driver: FakeDriver) -> None:
    """A comparison blocks for 40 ms; an idle machine should not pay for it all night."""
    only_fields(driver.gpus[0])
    with RunningChild(driver) as child:
        samples = child.links_apart(16, 0.02)
        calls = driver.gpus[0].group_calls(Group.THROUGHPUT)
    # On a machine that is short of CPU an answer may come too late; it is not what is tested here.
    assert {sample.state for sample in samples} - {GpuState.HUNG} == {GpuState.OK}
    assert 2 <= calls / 2 <= 4


def test_zero_while_the_gpu_computes_is_stale_when_nothing_else_can_tell(
    driver: FakeDriver,
) -> None:
    """DCGM#303: profiling values stood at zero after an Xid 31 while the GPU worked."""
    gpu = driver.gpus[0]
    only_fields(gpu)
    gpu.supports_throughput = 0
    gpu.broken_field_zero = 1
    gpu.utilisation_percent = 80
    with RunningChild(driver) as child:
        samples = child.links_apart(6, 0.02)
        gpu.broken_field_zero = 0
        gpu.set_rates(RX, TX)
        counted = child.links_apart(3, 0.1)[-1]
    assert [sample.state for sample in samples[:3]] == [GpuState.OK] * 3
    assert {sample.state for sample in samples[4:]} == {GpuState.STALE}
    assert "no other way can tell" in samples[-1].reason
    assert samples[-1].rx.bytes_per_second is None
    assert samples[-1].utilisation_ratio == 0.8
    assert counted.state is GpuState.OK


def test_zero_on_an_idle_gpu_is_zero(driver: FakeDriver) -> None:
    only_fields(driver.gpus[0])
    driver.gpus[0].supports_throughput = 0
    with RunningChild(driver) as child:
        samples = child.links_apart(6, 0.02)
    assert {(sample.state, sample.rx.bytes_per_second) for sample in samples} == {(GpuState.OK, 0)}


def test_throughput_is_not_compared_with_itself(driver: FakeDriver) -> None:
    """It sees 20 ms, and drivers up to 536 round it to whole MB: a decoding GPU shows zero."""
    gpu = driver.gpus[0]
    gpu.supports_gpm_cumulative = gpu.supports_gpm_rate = gpu.supports_field_counter = 0
    gpu.utilisation_percent = 80
    with RunningChild(driver) as child:
        samples = child.links_apart(6, 0.02)
    assert {(sample.state, sample.rx.bytes_per_second) for sample in samples} == {(GpuState.OK, 0)}
    assert gpu.group_calls(Group.THROUGHPUT) == 2 * (1 + 6)


@pytest.mark.parametrize(
    ("method", "blank"),
    [
        (Method.GPM_CUMULATIVE, 1),
        (Method.GPM_RATE, 2),
        (Method.FIELD_COUNTER, 1),
        (Method.FIELD_COUNTER, 3),
        (Method.THROUGHPUT, 2),
    ],
)
def test_marks_for_no_value_are_never_rates(driver: FakeDriver, method: Method, blank: int) -> None:
    """Others exported them as bytes (guilbaults/slurm-job-exporter#30)."""
    order = list(Method)
    pause_s = GPM_PAUSE_S if order.index(method) < 2 else 0.05
    gpu = driver.gpus[0]
    gpu.supports_gpm_cumulative = order.index(method) < 1
    gpu.supports_gpm_rate = order.index(method) < 2
    gpu.supports_field_counter = order.index(method) < 3
    gpu.set_rates(RX, TX)
    with RunningChild(driver) as child:
        child.first_link()
        gpu.blank_sentinel = blank
        marked = child.links_apart(2, pause_s)[-1]
        gpu.blank_sentinel = 0
        counted = child.links_apart(3, pause_s)[-1]
    assert marked.state is GpuState.OK
    assert (marked.rx.bytes_per_second, marked.rx.size_bytes) == (None, None)
    assert "no value" in marked.reason
    assert marked.utilisation_ratio is None
    assert counted.rx.bytes_per_second == pytest.approx(RX, rel=0.1)


def test_a_gpu_that_marks_everything_from_the_start_has_no_way(driver: FakeDriver) -> None:
    driver.gpus[0].blank_sentinel = 1
    with RunningChild(driver) as child:
        facts = child.greeting.gpus[0]
        (sample,) = child.links_apart(1)
    assert facts.link_state is sample.state is GpuState.UNSUPPORTED
    assert [probe.cost_us for probe in facts.probes] == [None] * 4
    assert all("no value" in probe.outcome for probe in facts.probes)
