from __future__ import annotations

import math
from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope.histogram import bucket_middle_us, bucket_of, bucket_upper_us, quantile_us
from tests.analytics import memory_lake
from tests.analytics.memory_lake import S

lake_of = partial(memory_lake.lake_of, others=(), modules=("itl_quantile",))

GAPS = st.lists(st.integers(0, 20_000_000), min_size=1, max_size=80)
Q = st.sampled_from([0.01, 0.5, 0.9, 0.99, 0.999, 1.0])


def rows_of(gaps: list[int], level: str = "step") -> list[dict[str, object]]:
    counts = Counter(bucket_of(gap) for gap in gaps)
    return [
        {
            "wall_us": S,
            "engine": 1,
            "level": level,
            "bucket": bucket,
            "lower_bucket": max(bucket - 1, -1),
            "observations": count,
        }
        for bucket, count in counts.items()
    ]


@given(gaps=GAPS, q=Q)
def test_sql_python_and_the_sorted_list_agree(gaps: list[int], q: float) -> None:
    with lake_of({"itl_1s": rows_of(gaps)}) as lake:
        ((lower, upper, value, count),) = lake.execute(
            "SELECT lower_us, upper_us, value_us, observations FROM itl_quantile([?], 0, 2000000)",
            [q],
        ).fetchall()
    true = sorted(gaps)[max(1, math.ceil(q * len(gaps))) - 1]
    assert count == len(gaps)
    assert value == pytest.approx(quantile_us(Counter(bucket_of(gap) for gap in gaps), q))
    assert value == pytest.approx(true, rel=0.01)
    assert lower * 0.999999 <= true <= upper * 1.000001


def test_scraped_buckets_have_an_interval_and_no_figure() -> None:
    rows = [
        {
            "wall_us": S,
            "engine": 1,
            "level": "scrape",
            "bucket": bucket_of(75_000),
            "lower_bucket": bucket_of(50_000),
            "observations": 9,
        },
        {
            "wall_us": S,
            "engine": 1,
            "level": "scrape",
            "bucket": 32_767,
            "lower_bucket": bucket_of(80_000_000),
            "observations": 1,
        },
    ]
    with lake_of({"itl_1s": rows}) as lake:
        found = lake.execute(
            "SELECT lower_us, upper_us, value_us FROM itl_quantile([0.5, 1.0], 0, 2000000)"
        ).fetchall()
    (middle, top) = found
    assert middle[0] == pytest.approx(50_000, rel=0.02)
    assert middle[1] == pytest.approx(75_000, rel=0.02)
    assert top[1:] == (None, None)
    assert middle[2] is None


def test_levels_and_engines_stay_apart() -> None:
    rows = [*rows_of([1_000], "step"), *rows_of([9_000], "gap")]
    rows += [row | {"engine": 2} for row in rows_of([5_000], "step")]
    with lake_of({"itl_10s": rows}) as lake:
        found = lake.execute(
            "SELECT engine, level, round(value_us, -3) FROM itl_quantile([0.5], 0, 2000000, "
            "source := 'itl_10s') ORDER BY ALL"
        ).fetchall()
    assert found == [(1, "gap", 9_000.0), (1, "step", 1_000.0), (2, "step", 5_000.0)]


@pytest.mark.parametrize("bucket", [-1, 0, 1, 466, 1_000])
def test_edges_are_those_of_the_histogram_module(bucket: int) -> None:
    with lake_of({}) as lake:
        found = lake.execute(
            "SELECT bucket_upper_us(?::SMALLINT), bucket_middle_us(?::SMALLINT)", [bucket, bucket]
        ).fetchone()
    assert found == (
        pytest.approx(bucket_upper_us(bucket)),
        pytest.approx(bucket_middle_us(bucket)),
    )
