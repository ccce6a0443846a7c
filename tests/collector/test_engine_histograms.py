from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.engine_histograms import (
    Cumulative,
    Growth,
    NotCumulativeError,
    add,
    grow,
    read_cumulative,
    suspect,
)

INF = math.inf
US = 1_000_000


def read(
    buckets: dict[float, float | None], total: float | None = 0, scale: float = 1
) -> Cumulative:
    one = read_cumulative(buckets, None, total, scale)
    assert one is not None
    return one


def test_bounds_are_sorted_as_numbers() -> None:
    one = read({10: 9, 2: 4, INF: 9})
    assert one.bounds == (2, 10)
    assert one.counts == (4, 9, 9)


def test_counts_that_fall_are_raised_to_the_running_maximum_and_flagged() -> None:
    one = read({1: 2, 2: 1, INF: 3})
    assert one.counts == (2, 2, 3)
    assert grow(None, one).counts == (2, 0, 1)
    assert "repaired_monotony" in grow(None, one).flags


def test_numbers_that_are_not_cumulative_are_no_histogram() -> None:
    with pytest.raises(NotCumulativeError):
        read({0.2: 45, 0.3: 9.3, 0.5: 17, INF: 0})


def test_bounds_and_sum_become_integers_in_the_unit_of_the_family() -> None:
    one = read({0.001: 1, 1.001: 2, 2.5: 3, INF: 3}, total=0.4567891, scale=US)
    assert one.bounds == (1_000, 1_001_000, 2_500_000)  # 1.001 * 1e6 is 1000999.9999999999
    assert one.total == 456_789


def test_bounds_that_fall_on_one_integer_are_one_bucket() -> None:
    # tokens are whole: up to 1.3 and up to 1.7 both mean up to 1
    one = read({1.3: 2, 1.7: 5, 2.2: 6, INF: 7})
    assert (one.bounds, one.counts) == ((1, 2), (5, 6, 7))


def test_the_count_stands_in_for_a_missing_last_bucket() -> None:
    one = read_cumulative({1: 2}, 5, None, 1)
    assert one is not None
    assert (one.counts, one.total) == ((2, 5), None)


def test_a_histogram_cut_off_before_its_end_is_not_guessed() -> None:
    assert read_cumulative({0.001: 208, 0.005: 208}, None, None, US) is None


def test_nan_is_left_out() -> None:
    assert read({1: None, 2: 3, math.nan: 9, INF: 4}, total=math.nan).counts == (3, 4)
    assert read({2: 3, INF: 4}, total=math.nan).total is None


def test_growth_is_per_bucket_and_exact() -> None:
    before = read({1: 1, 2: 3, INF: 4}, total=7)
    now = read({1: 1, 2: 6, INF: 9}, total=19)
    growth = grow(before, now)
    assert growth.counts == (0, 3, 2)
    assert (growth.observations, growth.total, growth.flags) == (5, 12, frozenset())


def test_counts_that_fell_count_from_zero_and_are_flagged() -> None:
    growth = grow(read({1: 1, 2: 3, INF: 40}, 50), read({1: 1, 2: 6, INF: 9}, 19))
    assert growth.counts == (1, 5, 3)
    assert growth.total == 19
    assert growth.flags == {"counter_fell"}


def test_a_bucket_whose_line_was_refused_once_costs_resolution_not_truth() -> None:
    whole = read({1: 1, 2: 3, 4: 3, INF: 4})
    holed = read({1: 2, 4: 5, INF: 6})
    growth = grow(whole, holed)
    assert (growth.bounds, growth.counts, growth.flags) == ((1, 4), (1, 1, 0), frozenset())
    assert grow(holed, read({1: 2, 2: 5, 4: 5, INF: 7})).counts == (0, 0, 1)


def test_a_sum_that_fell_is_unknown() -> None:
    assert grow(read({1: 1, INF: 1}, total=5), read({1: 2, INF: 2}, total=4)).total is None
    assert grow(read({1: 1, INF: 1}, total=None), read({1: 2, INF: 2}, total=4)).total is None


def test_growth_that_is_not_monotone_is_repaired() -> None:
    # one scrape saw a bucket before, and the next one after, an observation in between
    growth = grow(read({1: 0, 2: 5, INF: 5}), read({1: 3, 2: 6, INF: 6}))
    assert growth.counts == (3, 0, 0)
    assert growth.flags == {"repaired_monotony"}


class TestDoubts:
    @staticmethod
    def of(counts: tuple[int, ...], total: int | None, bounds: tuple[int, ...]) -> set[str]:
        return set(suspect(Growth(bounds, counts, total)))

    def test_all_observations_zero(self) -> None:
        # vllm#6337: every TTFT was recorded as 0 s
        doubts = self.of((208, 0, 0), 0, (1_000, 5_000))
        assert doubts == {"all_in_lowest", "zero_sum"}

    def test_all_in_the_lowest_bucket_but_real(self) -> None:
        assert self.of((5, 0, 0), 20_000, (10_000, 25_000)) == {"all_in_lowest"}

    def test_all_in_one_bucket(self) -> None:
        assert self.of((0, 50, 0), 80, (1, 2)) == {"all_in_one"}
        assert self.of((0, 1, 0), 2, (1, 2)) == set()  # one observation is always in one

    def test_a_mean_above_the_top_bound_contradicts_every_quantile(self) -> None:
        assert "mean_above_top" in self.of((0, 10, 90), 900, (1, 5))
        assert "mean_above_top" not in self.of((0, 10, 90), 500, (1, 5))

    def test_zero_is_fine_where_the_lowest_bound_is_zero(self) -> None:
        assert self.of((9, 0, 0), 0, (0, 100_000)) == {"all_in_lowest"}

    def test_no_observations_and_no_buckets_give_no_doubt(self) -> None:
        assert self.of((0, 0, 0), 0, (1, 2)) == set()
        assert self.of((5,), 100, ()) == set()


def test_true_values_between_two_bounds_stay_an_interval() -> None:
    # all true values 255 to 260 ms: nothing finer than (0.25, 0.5] is known
    one = read({0.1: 0, 0.25: 0, 0.5: 40, 1: 40, INF: 40}, total=10.3, scale=US)
    growth = grow(None, one)
    at = growth.counts.index(40)
    assert growth.bounds[at - 1 : at + 1] == (250_000, 500_000)


def test_adding_keeps_what_has_the_same_bounds_and_says_what_has_not() -> None:
    one, two = Growth((1, 2), (1, 2, 3), 10), Growth((1, 2), (4, 0, 0), 4)
    assert add([one, two]) == Growth((1, 2), (5, 2, 3), 14)
    other = add([one, Growth((1, 3), (9, 9, 9), 99)])
    assert (other.counts, other.flags) == ((1, 2, 3), frozenset({"mixed_bounds"}))
    assert add([one, Growth((1, 2), (1, 0, 0), None)]).total is None


COUNTS = st.lists(st.integers(0, 50), min_size=4, max_size=4)


@given(st.lists(COUNTS, min_size=1, max_size=6))
def test_growth_over_many_pages_adds_up_to_the_last_page(windows: list[list[int]]) -> None:
    bounds = (1.0, 2.0, 3.0, INF)
    totals = [0, 0, 0, 0]
    before: Cumulative | None = None
    grown = [0, 0, 0, 0]
    for window in windows:
        totals = [old + new for old, new in zip(totals, window, strict=True)]
        cumulative = [sum(totals[: place + 1]) for place in range(4)]
        now = read(dict(zip(bounds, map(float, cumulative), strict=True)), total=sum(totals))
        growth = grow(before, now)
        assert list(growth.counts) == window
        grown = [old + new for old, new in zip(grown, growth.counts, strict=True)]
        before = now
    assert grown == totals


@given(
    st.dictionaries(st.floats(0.001, 1e4), st.integers(0, 100).map(float), max_size=8),
    st.integers(0, 100),
)
def test_whatever_a_page_says_buckets_never_count_negative(
    buckets: dict[float, float | None], everything: int
) -> None:
    try:
        one = read_cumulative({**buckets, INF: everything}, None, None, US)
    except NotCumulativeError:
        assert everything < max(value for value in buckets.values() if value is not None)
        return
    assert one is not None
    growth = grow(None, one)
    assert min(growth.counts) >= 0
    assert growth.observations == everything
    assert list(growth.bounds) == sorted(set(growth.bounds))
    assert len(growth.counts) == len(growth.bounds) + 1


def test_numbers_that_no_column_holds_are_no_numbers() -> None:
    one = read({0.1: 1, 1e30: 2, 1e305: 2, INF: 3}, total=1e308, scale=US)
    assert (one.bounds, one.counts, one.total) == ((100_000,), (1, 3), None)
    assert read_cumulative({INF: 1e300}, None, 0, 1) is None
