from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.charts import (
    Gap,
    Limit,
    Mark,
    Panel,
    Trace,
    figure,
    gaps_of,
    last_interval,
    on_windows,
    short,
)
from dashboard.ranges import Range, Windows

S = 1_000_000
WINDOWS = Windows(start_us=100 * S, step_us=10 * S, count=4)


def test_values_stand_on_their_windows_and_the_rest_is_unknown() -> None:
    wall = np.array([90 * S, 100 * S, 120 * S, 140 * S])
    values = np.array([1.0, 2.0, np.nan, 4.0])
    assert on_windows(WINDOWS, wall, values, 10) == [20.0, None, None, None]


@given(value=st.floats(-1e12, 1e12))
def test_four_digits_are_enough(value: float) -> None:
    assert short(value) == pytest.approx(value, rel=5e-4)


def test_unknown_stays_unknown() -> None:
    assert [short(value) for value in (None, float("nan"), 0.0, float("inf"))] == [
        None, None, 0.0, None,
    ]  # fmt: skip


def test_gaps_are_named_up_to_the_last_row_and_not_beyond() -> None:
    covered = np.array([False, True, False, False, True, False])
    windows = Windows(100 * S, 10 * S, 6)
    assert gaps_of(windows, covered, 160 * S, "no scrape answered") == [
        Gap(100 * S, 110 * S, "nothing recorded before"),
        Gap(120 * S, 140 * S, "no scrape answered"),
    ]
    assert gaps_of(windows, np.zeros(6, dtype=bool), 160 * S, "x") == []
    assert gaps_of(windows, np.ones(6, dtype=bool), 160 * S, "x") == []


def test_above_the_highest_bucket_is_an_interval_too() -> None:
    trace = Trace("p99", high=[75.0, None, None], low=[50.0, 5_000.0, None])
    assert last_interval(trace) == (5_000.0, None)


def test_a_figure_is_plain_json() -> None:
    panel = Panel(
        key="k", title="T", unit="ms", sub="", height=50, windows=WINDOWS, alt="a",
        traces=[Trace("p99", [1.0, None, 2.0, 3.0], [0.5, None, 1.0, 2.0], interval=True)],
        gaps=[Gap(100 * S, 110 * S, "why")], limits=[Limit(85, "limit")],
    )  # fmt: skip
    data = figure([panel], [Mark(105 * S, "restarted")], Range(100 * S, 140 * S), "note")
    again = json.loads(json.dumps(data, allow_nan=False))
    assert again["range"] == [100.0, 140.0]
    assert again["zoom"] is None
    assert again["marks"] == [{"at": 105.0, "label": "restarted"}]
    assert again["panels"][0]["x"] == {"start": 100.0, "step": 10.0, "count": 4}
    assert again["panels"][0]["limits"] == [{"value": 85, "label": "limit", "breach": True}]
    assert again["panels"][0]["series"][0]["low"] == [0.5, None, 1.0, 2.0]
