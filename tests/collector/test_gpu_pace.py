from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.gpu_pace import GpuPace
from tests.collector.stand_ins import SECOND

_MS = 1_000


def _note(pace: GpuPace, *costs_ms: int, burst: bool = False) -> list[int]:
    """Return the interval after each poll, in milliseconds."""
    intervals = []
    for cost in costs_ms:
        pace.note(cost * _MS, is_burst=burst)
        intervals.append(pace.interval_us(is_burst=burst) // _MS)
    return intervals


def test_a_cheap_driver_is_asked_as_set() -> None:
    pace = GpuPace(SECOND)
    assert _note(pace, 1, 42, 100) == [1_000, 1_000, 1_000]
    assert pace.reason(is_burst=False) == ""


def test_a_burst_is_five_times_a_second_and_never_slower_than_set() -> None:
    assert GpuPace(SECOND).interval_us(is_burst=True) == 200 * _MS
    assert GpuPace(200 * _MS).interval_us(is_burst=True) == 200 * _MS


def test_a_costly_driver_is_asked_half_as_often_until_it_is_cheap() -> None:
    pace = GpuPace(SECOND)
    assert _note(pace, 150, 250, 150) == [2_000, 4_000, 4_000]
    assert "150 ms" not in pace.reason(is_burst=False)
    assert "every 4 s instead of 1 s" in pace.reason(is_burst=False)
    assert "250 ms" in pace.reason(is_burst=False)


def test_it_comes_back_after_five_calm_polls() -> None:
    pace = GpuPace(SECOND)
    assert _note(pace, 150, 20, 20, 20, 20, 20) == [2_000] * 5 + [1_000]
    assert pace.reason(is_burst=False) == ""
    # 60 ms of 2 s are calm, but of 1 s they would be more than a twentieth.
    assert _note(pace, 150, *[60] * 20)[-1] == 2_000


def test_what_a_burst_costs_does_not_slow_the_usual_pace_down() -> None:
    """Throughput blocks for 42 ms: too much at 200 and 400 ms, fine at 800."""
    pace = GpuPace(SECOND)
    assert _note(pace, 42, 42, 42, 42, burst=True) == [400, 800, 800, 800]
    assert pace.reason(is_burst=True)
    assert pace.interval_us(is_burst=False) == SECOND
    assert pace.reason(is_burst=False) == ""


@given(costs=st.lists(st.integers(0, 60_000), max_size=60), usual=st.integers(200, 60_000))
def test_the_interval_stays_between_what_is_set_and_ten_seconds(
    costs: list[int], usual: int
) -> None:
    pace = GpuPace(usual * _MS)
    for interval in _note(pace, *costs):
        assert usual <= interval <= max(usual, 10_000)
