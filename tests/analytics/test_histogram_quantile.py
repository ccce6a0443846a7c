from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analytics import memory_lake
from tests.analytics.memory_lake import S, histogram, scrape

lake_of = partial(
    memory_lake.lake_of,
    others=("engine_metrics", "engine_histogram"),
    modules=("histogram_bucket", "histogram_quantile", "latency_quantile"),
)

BOUNDS = st.lists(st.integers(1, 5_000), min_size=1, max_size=8, unique=True).map(sorted)
VALUES = st.lists(st.integers(0, 6_000), min_size=1, max_size=60)
Q = st.sampled_from([0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0])


def counted(values: Sequence[int], bounds: Sequence[int]) -> list[int]:
    """Count values into buckets (lower, upper], the last one without limit."""
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[bisect.bisect_left(bounds, value)] += 1
    return counts


def edges(values: Sequence[int], bounds: Sequence[int]) -> list[tuple[float, float]]:
    """Return the bucket of each value as (lower, upper)."""
    at = [bisect.bisect_left(bounds, value) for value in values]
    return [(bounds[i - 1] if i else 0, bounds[i] if i < len(bounds) else math.inf) for i in at]


def rank(q: float, n: int) -> int:
    return max(1, math.ceil(q * n))


@given(values=VALUES, bounds=BOUNDS, q=Q)
def test_the_interval_holds_the_value_of_that_rank(
    values: list[int], bounds: list[int], q: float
) -> None:
    with lake_of({"engine_histogram": [histogram(S, counted(values, bounds), bounds)]}) as lake:
        found = lake.execute(
            "SELECT lower_bound, upper_bound, observations "
            "FROM histogram_quantile(['ttft_us'], [?], 0, 10000000)",
            [q],
        ).fetchall()
    true = sorted(values)[rank(q, len(values)) - 1]
    ((lower, upper, observations),) = found
    assert observations == len(values)
    assert lower < true or (lower == 0 and true == 0)
    assert true <= (math.inf if upper is None else upper)


@given(first=VALUES, second=VALUES, bounds=BOUNDS, others=BOUNDS, q=Q)
def test_different_buckets_add_up_to_the_quantiles_of_their_edges(
    first: list[int], second: list[int], bounds: list[int], others: list[int], q: float
) -> None:
    rows = [
        histogram(S, counted(first, bounds), bounds, engine=1),
        histogram(2 * S, counted(second, others), others, engine=2),
    ]
    with lake_of({"engine_histogram": rows}) as lake:
        found = lake.execute(
            "SELECT engine, lower_bound, upper_bound, observations FROM "
            "histogram_quantile(['ttft_us'], [?], 0, 10000000, merged := true)",
            [q],
        ).fetchall()
    pairs = edges(first, bounds) + edges(second, others)
    nth = rank(q, len(pairs)) - 1
    upper = sorted(high for _, high in pairs)[nth]
    expected = (
        None,
        sorted(low for low, _ in pairs)[nth],
        None if upper == math.inf else upper,
        len(pairs),
    )
    assert found == [expected]


def test_windows_are_counted_from_1970_and_empty_ones_have_no_row() -> None:
    rows = [
        histogram(11 * S, [1, 0], [100]),
        histogram(19 * S, [0, 1], [100]),
        histogram(40 * S, [0, 0], [100]),
    ]
    with lake_of({"engine_histogram": rows}) as lake:
        found = lake.execute(
            "SELECT wall_us, observations, lower_bound, upper_bound FROM histogram_quantile("
            "['ttft_us'], [1.0], 0, 60000000, step_us := 10000000)"
        ).fetchall()
    assert found == [(10 * S, 2, 100, None)]


def test_only_the_range_the_engine_and_the_families_asked_for_count() -> None:
    rows = [
        histogram(10 * S, [1, 0], [100]),
        histogram(20 * S, [1, 0], [200]),  # the end is left out
        histogram(10 * S, [1, 0], [300], engine=2),
        histogram(10 * S, [1, 0], [400], family="e2e_us"),
    ]
    with lake_of({"engine_histogram": rows}) as lake:
        found = lake.execute(
            "SELECT engine, family, upper_bound FROM histogram_quantile("
            "['ttft_us'], [0.5], 10000000, 20000000, only_engine := 1)"
        ).fetchall()
    assert found == [(1, "ttft_us", 100)]


@pytest.mark.parametrize(
    ("counts", "bounds", "lower", "upper", "note"),
    [
        # Every observation is recorded as 0 s: at most the lowest bound, and suspicious.
        ([208, 0, 0], [1_000, 5_000], 0, 1_000, "all in the lowest bucket"),
        # All true values 255 to 260 ms: the bucket is what is known.
        ([0, 0, 40, 0], [100_000, 250_000, 500_000], 250_000, 500_000, "all in one bucket"),
        # Mean 9 s, highest finite bound 5 s: the p99 is above 5 s and not 5 s.
        ([1, 0, 99], [1_000_000, 5_000_000], 5_000_000, None, "above the highest bucket"),
        ([50, 50, 0], [1_000, 5_000], 1_000, 5_000, None),
    ],
)
def test_what_to_know_before_quoting_it_is_said(
    counts: list[int], bounds: list[int], lower: int, upper: int | None, note: str | None
) -> None:
    with lake_of(
        {
            "engine_histogram": [histogram(S, counts, bounds)],
            "engine_metrics": [scrape(S)],
        }
    ) as lake:
        found = lake.execute(
            "SELECT lower_us, upper_us, note FROM latency_quantile('ttft_us', 0.99, 0, 10000000)"
        ).fetchall()
    assert found == [(lower, upper, note)]


def test_an_engine_without_requests_has_a_row_that_says_so() -> None:
    with lake_of(
        {
            "engine_histogram": [histogram(S, [3, 0], [100], engine=2)],
            "engine_metrics": [scrape(S, engine=1), scrape(S, engine=2)],
        }
    ) as lake:
        found = lake.execute(
            "SELECT engine, lower_us, upper_us, observations, note "
            "FROM latency_quantile('ttft_us', 0.99, 0, 10000000)"
        ).fetchall()
    assert found == [
        (1, None, None, 0, "no requests in this window"),
        (2, 0, 100, 3, "all in the lowest bucket"),
    ]


def test_rows_and_their_sum_per_minute_give_the_same_answer() -> None:
    rows = [histogram(i * S, [i % 3, i % 5, i % 2], [1_000, 2_000]) for i in range(60, 180)]
    minutes = [
        {
            "wall_us": minute * 60 * S,
            "engine": 1,
            "family": "ttft_us",
            "observations": 0,
            "sum": 0,
            "bounds": [1_000, 2_000],
            "counts": [
                sum(row["counts"][k] for row in rows if row["wall_us"] // (60 * S) == minute)  # type: ignore[index,operator]
                for k in range(3)
            ],
        }
        for minute in (1, 2)
    ]
    with lake_of({"engine_histogram": rows, "engine_histogram_1m": minutes}) as lake:
        answers = [
            lake.execute(
                "SELECT * FROM histogram_quantile(['ttft_us'], [0.1, 0.5, 0.99], 0, "
                "1000000000, step_us := 60000000, source := ?)",
                [source],
            ).fetchall()
            for source in ("engine_histogram", "engine_histogram_1m")
        ]
    assert len(answers[0]) == 6
    assert answers[0] == answers[1]


def test_buckets_stand_in_order_of_numbers() -> None:
    """Sorted as text, 10 would stand before 2."""
    rows = [histogram(S, [1, 0, 4], [2, 10])]
    with lake_of({"engine_histogram": rows}) as lake:
        found = lake.execute(
            "SELECT lower_bound, upper_bound, observations FROM engine_histogram_bucket "
            "ORDER BY lower_bound"
        ).fetchall()
    assert found == [(0, 2, 1), (10, None, 4)]
