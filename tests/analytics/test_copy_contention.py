"""Slope, lag and chance: what was planted comes back, and nothing comes from nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.copy_contention import (
    MIN_POINTS,
    MIN_SHIFTS,
    Relation,
    Values,
    aligned,
    on_grid,
    relate,
)

S = 1_000_000
GRAIN = 0.01


def bursts(random: np.random.Generator, count: int, share: float = 0.2) -> Values:
    """Return a link that is busy in stretches of about six windows, quiet otherwise."""
    busy = np.repeat(random.random(count // 6 + 1) < share, 6)[:count]
    quiet = 0.12 + 0.04 * random.standard_normal(count)
    return np.clip(quiet + busy * (0.5 + 0.3 * random.random(count)), 0, 1)


def gaps(random: np.random.Generator, count: int) -> Values:
    """Return latency in ms that owes the link nothing: noise, and a long prompt now and then."""
    steps = 40 * np.exp(0.1 * random.standard_normal(count))
    return steps + np.where(random.random(count) < 0.03, random.exponential(120, count), 0)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    slope=st.floats(25, 200),
    lag=st.integers(-5, 5),
    count=st.integers(400, 1_800),
)
def test_a_planted_slope_and_lag_come_back(seed: int, slope: float, lag: int, count: int) -> None:
    random = np.random.default_rng(seed)
    link = bursts(random, count)
    found = relate(link, gaps(random, count) + slope * np.roll(link, lag), S, GRAIN)
    assert found.lag_us == lag * S
    assert found.slope == pytest.approx(slope, abs=5)
    assert found.chance is not None
    assert found.chance <= 0.01
    assert found.points == count


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), unknown=st.floats(0.05, 0.4))
def test_unknown_windows_are_left_out_and_change_little(seed: int, unknown: float) -> None:
    random = np.random.default_rng(seed)
    link = bursts(random, 1_200)
    response = gaps(random, 1_200) + 60 * np.roll(link, 2)
    link[random.random(1_200) < unknown] = np.nan
    response[random.random(1_200) < unknown] = np.nan
    found = relate(link, response, S, GRAIN)
    assert found.points == int((~np.isnan(link) & ~np.isnan(response)).sum())
    assert found.lag_us == 2 * S
    assert found.slope == pytest.approx(60, abs=8)


def test_few_busy_windows_outweigh_many_idle_ones() -> None:
    """A spike owes its length to the busy second before it, of which there are few."""
    random = np.random.default_rng(5)
    link = bursts(random, 1_800, share=0.03)
    assert (link > 0.4).mean() < 0.06
    found = relate(link, gaps(random, 1_800) + 50 * link, S, GRAIN)
    assert found.slope == pytest.approx(50, abs=8)


def test_what_has_nothing_to_do_with_each_other_has_any_chance() -> None:
    """Both series follow themselves for seconds, as real ones do: the chance stays uniform."""
    chances = []
    for seed in range(300):
        link = bursts(np.random.default_rng((1, seed)), 600)
        other = bursts(np.random.default_rng((2, seed)), 600)
        response = gaps(np.random.default_rng((3, seed)), 600) + 60 * other
        chances.append(relate(link, response, S, GRAIN).chance)
    sorted_chances = np.sort(np.array(chances, dtype=np.float64))
    distance = np.abs(sorted_chances - (np.arange(300) + 0.5) / 300).max()
    assert distance < 1.63 / np.sqrt(300) + 0.02, "Kolmogorov and Smirnov at 1 %, plus a little"
    assert (sorted_chances <= 0.05).mean() <= 0.1


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), turn=st.integers(1, 599))
def test_turning_both_changes_no_chance(seed: int, turn: int) -> None:
    random = np.random.default_rng(seed)
    link, response = bursts(random, 600), gaps(random, 600)
    before = relate(link, response, S, GRAIN)
    after = relate(np.roll(link, turn), np.roll(response, turn), S, GRAIN)
    assert (after.chance, after.lag_us, after.shifts) == (
        before.chance, before.lag_us, before.shifts,
    )  # fmt: skip
    assert after.correlation == pytest.approx(before.correlation)


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), scale=st.floats(0.1, 50), offset=st.floats(-500, 500))
def test_units_of_the_response_scale_the_slope_and_nothing_else(
    seed: int, scale: float, offset: float
) -> None:
    random = np.random.default_rng(seed)
    link = bursts(random, 500)
    response = gaps(random, 500) + 40 * link
    before = relate(link, response, S, GRAIN)
    after = relate(link, offset + scale * response, S, GRAIN)
    assert after.slope == pytest.approx(scale * (before.slope or 0), rel=1e-6)
    assert (after.chance, after.lag_us) == (before.chance, before.lag_us)


def test_the_same_data_gives_the_same_answer() -> None:
    link = bursts(np.random.default_rng(1), 1_500)
    response = gaps(np.random.default_rng(2), 1_500)
    assert relate(link, response, S, GRAIN) == relate(link, response, S, GRAIN)


def test_what_falls_when_the_link_is_busy_has_no_lag() -> None:
    random = np.random.default_rng(3)
    link = np.repeat(random.random(30), 40)  # longer than the longest lag
    found = relate(link, 100 - 50 * link, S, GRAIN)
    assert found.lag_us is None
    assert found.slope == pytest.approx(-50)
    assert found.chance is not None
    assert found.chance > 0.5


def test_too_few_windows_say_nothing() -> None:
    link = np.linspace(0, 1, MIN_POINTS - 1)
    assert relate(link, link, S, GRAIN) == Relation(
        MIN_POINTS - 1, "29 windows in which both are known, 30 are needed"
    )
    nothing = np.full(50, np.nan)
    assert relate(nothing, nothing, S, GRAIN).points == 0


def test_what_never_changes_says_nothing() -> None:
    rising, still = np.linspace(0, 1, 300), np.full(300, 0.4)
    noise = still + 0.004 * np.sin(np.arange(300))
    assert relate(noise, rising, S, GRAIN).reason == "the copy path did the same all the time"
    assert relate(rising, still, S, GRAIN).reason == "inter-token latency was the same all the time"
    assert relate(noise, rising, S, GRAIN).slope is None


def test_a_short_range_has_a_slope_and_no_chance() -> None:
    random = np.random.default_rng(4)
    link = bursts(random, 100, share=0.5)
    found = relate(link, 30 + 20 * link, S, GRAIN)
    assert found.slope == pytest.approx(20)
    assert found.chance is None
    assert found.shifts == 100 - 21 < MIN_SHIFTS
    assert found.chance_reason == "79 shifts are possible, 200 are needed"


def test_long_windows_hide_a_lag_of_seconds() -> None:
    random = np.random.default_rng(6)
    link = bursts(random, 400, share=0.4)
    found = relate(link, gaps(random, 400) + 80 * link, 10 * S, GRAIN)
    assert found.lag_us is None
    assert found.shifts == 399
    assert found.slope == pytest.approx(80, abs=6)


@given(lag=st.integers(-4, 4))
def test_aligned_pairs_are_a_lag_apart(lag: int) -> None:
    series = np.arange(20.0)
    signal, response = aligned(series, series, lag)
    assert len(signal) == 20 - abs(lag)
    assert set((response - signal).tolist()) == {float(lag)}


def test_holes_in_time_become_unknown_windows() -> None:
    grid = on_grid(np.array([50, 52, 55]), np.array([1.0, 2.0, 3.0]), 50, 1)
    assert grid.tolist()[:1] == [1.0]
    assert np.isnan(grid).tolist() == [False, True, False, True, True, False]
    assert len(on_grid(np.array([], dtype=np.int64), np.array([]), 50, 1)) == 0
