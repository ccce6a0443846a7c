from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope.histogram import (
    ZERO_BUCKET,
    bucket_of,
    bucket_upper_us,
    buckets_of,
    quantile_us,
)

DURATIONS = st.integers(0, 2**32 - 1)


@given(DURATIONS)
def test_a_bucket_holds_its_value(value: int) -> None:
    bucket = bucket_of(value)
    assert value <= bucket_upper_us(bucket) * (1 + 1e-9)
    if bucket > 0:
        assert value > bucket_upper_us(bucket - 1) * (1 - 1e-9)


@given(st.lists(DURATIONS, min_size=1))
def test_the_array_form_agrees(values: list[int]) -> None:
    expected = [bucket_of(value) for value in values]
    assert buckets_of(np.array(values, dtype=np.uint32)).tolist() == expected


@given(st.lists(st.integers(1, 2**32 - 1), min_size=1, max_size=300), st.floats(0, 1))
def test_a_quantile_is_within_one_per_cent_of_the_sorted_list(values: list[int], q: float) -> None:
    exact = sorted(values)[max(1, math.ceil(q * len(values))) - 1]
    answer = quantile_us(Counter(bucket_of(value) for value in values), q)
    assert answer == pytest.approx(exact, rel=0.01)


def test_nothing_observed_has_no_quantile() -> None:
    assert quantile_us({}, 0.99) is None


def test_several_tokens_in_one_chunk_are_zero_not_one() -> None:
    assert bucket_of(0) == ZERO_BUCKET
    assert quantile_us({ZERO_BUCKET: 9, bucket_of(80_000): 1}, 0.5) == 0.0
