from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.pace import Pace, Start

_MS = 1_000


def test_a_poll_on_time_has_no_lag_and_skips_nothing() -> None:
    pace = Pace(100 * _MS, 0)
    assert pace.start(0) == Start(lag_us=0, skipped=0)
    assert pace.due_us == 100 * _MS


def test_a_late_poll_does_not_shift_the_grid() -> None:
    pace = Pace(100 * _MS, 100 * _MS)
    assert pace.start(130 * _MS) == Start(lag_us=30 * _MS, skipped=0)
    assert pace.wait_us(130 * _MS) == 70 * _MS


def test_ticks_that_passed_are_skipped_and_counted() -> None:
    pace = Pace(100 * _MS, 100 * _MS)
    # Due at 100, begun at 350: the ticks at 200 and 300 are lost, the next is 400.
    assert pace.start(350 * _MS) == Start(lag_us=250 * _MS, skipped=2)
    assert pace.due_us == 400 * _MS


def test_a_rest_leaves_ticks_out_without_counting_them_as_late() -> None:
    pace = Pace(100 * _MS, 0)
    pace.start(0)
    pace.rest(10 * _MS, 1_000 * _MS)
    assert pace.due_us == 1_100 * _MS
    assert pace.start(1_100 * _MS) == Start(0, 0)


def test_a_rest_shorter_than_the_wait_changes_nothing() -> None:
    pace = Pace(100 * _MS, 500 * _MS)
    pace.rest(0, 400 * _MS)
    assert pace.due_us == 500 * _MS


def test_a_new_interval_counts_from_the_last_tick() -> None:
    pace = Pace(1_000 * _MS, 0)
    pace.start(0)
    pace.follow(200 * _MS, 50 * _MS)
    assert pace.due_us == 200 * _MS
    pace.start(200 * _MS)
    pace.follow(1_000 * _MS, 250 * _MS)
    assert pace.due_us == 1_200 * _MS


def test_nobody_is_late_for_a_tick_that_was_not_planned() -> None:
    pace = Pace(1_000 * _MS, 0)
    pace.start(0)
    pace.follow(200 * _MS, 900 * _MS)
    assert pace.wait_us(900 * _MS) == 0
    assert pace.start(900 * _MS) == Start(lag_us=0, skipped=0)


def test_a_new_interval_does_not_end_a_rest() -> None:
    pace = Pace(1_000 * _MS, 0)
    pace.start(0)
    pace.rest(0, 30_000 * _MS)
    pace.follow(200 * _MS, 100 * _MS)
    assert pace.due_us >= 29_000 * _MS


def test_the_same_interval_changes_nothing() -> None:
    pace = Pace(100 * _MS, 100 * _MS)
    pace.follow(100 * _MS, 350 * _MS)
    assert pace.start(350 * _MS) == Start(lag_us=250 * _MS, skipped=2)


@given(
    interval=st.integers(1, 10_000_000),
    begin=st.integers(0, 10**12),
    delays=st.lists(st.integers(0, 50_000_000), max_size=50),
)
def test_the_grid_never_drifts_and_never_lies_in_the_past(
    interval: int, begin: int, delays: list[int]
) -> None:
    pace = Pace(interval, begin)
    now = begin
    ticks = 0
    for delay in delays:
        now = max(now, pace.due_us) + delay
        ticks += 1 + pace.start(now).skipped
        assert pace.due_us == begin + ticks * interval
        assert now < pace.due_us <= now + interval
