from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.nvml.follow_schedule import plan_following
from collector.nvml.raw_rate import raw_bytes_per_second

wraps_us = st.integers(10_000, 20_000_000)
costs_us = st.floats(0, 50_000)


@given(wraps_us, costs_us)
def test_readings_are_never_further_apart_than_half_a_wrap(wrap_us: int, cpu_us: float) -> None:
    plan = plan_following(wrap_us, cpu_us)
    assert 0 < plan.interval_us <= wrap_us / 2
    assert plan.rest_us >= 0
    assert plan.readings >= 1


@given(wraps_us, costs_us)
def test_following_never_costs_more_than_a_hundredth_of_a_core(wrap_us: int, cpu_us: float) -> None:
    plan = plan_following(wrap_us, cpu_us)
    cycle_us = plan.readings * plan.interval_us + plan.rest_us
    assert plan.readings * cpu_us <= 0.01 * (cycle_us + 1)


@given(wraps_us, costs_us)
def test_it_rests_only_when_it_has_to(wrap_us: int, cpu_us: float) -> None:
    plan = plan_following(wrap_us, cpu_us)
    if cpu_us <= 0.01 * plan.interval_us:
        assert plan.rest_us == 0
    else:
        assert plan.readings >= 2  # one alone measures nothing


@given(wraps_us, st.floats(1, 5_000))
def test_each_second_has_a_stretch(wrap_us: int, cpu_us: float) -> None:
    plan = plan_following(wrap_us, cpu_us)
    if plan.rest_us:
        assert plan.readings * plan.interval_us + plan.rest_us <= 1_000_000


def test_a_cheap_counter_of_a_fast_link_is_read_30_times_a_second() -> None:
    plan = plan_following(68_000, 300)
    assert (plan.interval_us, plan.rest_us) == (34_000, 0)


@pytest.mark.parametrize(
    ("generation", "gigabytes"),
    [(1, 4.0), (2, 8.0), (3, 15.754), (4, 31.508), (5, 63.015), (6, 118.0)],
)
def test_16_lanes_carry_what_the_specification_says(generation: int, gigabytes: float) -> None:
    assert raw_bytes_per_second(generation, 16) == pytest.approx(gigabytes * 1e9, rel=1e-4)
    assert raw_bytes_per_second(generation, 4) == pytest.approx(gigabytes * 1e9 / 4, rel=1e-4)


@pytest.mark.parametrize(
    ("generation", "width"), [(None, 16), (5, None), (0, 16), (5, 0), (9, 16), (5, 255)]
)
def test_an_unknown_link_carries_nobody_knows_what(
    generation: int | None, width: int | None
) -> None:
    assert raw_bytes_per_second(generation, width) is None
