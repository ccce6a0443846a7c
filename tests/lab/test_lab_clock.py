from __future__ import annotations

import time

import pytest

from lab.crash.clock import LabClock, real_now_us


def test_paced_clock_runs_faster_on_both_clocks() -> None:
    clock = LabClock(pace=1_000, origin_us=real_now_us())
    first = clock.now()
    time.sleep(0.05)
    second = clock.now()
    for grown in (second.wall_us - first.wall_us, second.mono_us - first.mono_us):
        assert 50_000_000 <= grown < 5_000_000_000, "at least 50 ms of real time, a thousandfold"


def test_two_clocks_of_one_origin_agree() -> None:
    origin = real_now_us() - 10_000_000
    a, b = (LabClock(pace=20, origin_us=origin).now() for _ in range(2))
    assert 0 <= b.wall_us - a.wall_us < 20 * 1_000_000
    assert a.wall_us == pytest.approx(origin + 20 * 10_000_000, abs=20 * 1_000_000)


def test_step_moves_the_wall_clock_and_not_the_monotonic_one() -> None:
    hour = 3_600_000_000
    plain, stepped = LabClock(), LabClock(steps=[(0.0, hour)])
    later = LabClock(steps=[(60.0, hour)])
    now = plain.now()
    assert stepped.now().wall_us - now.wall_us == pytest.approx(hour, abs=1_000_000)
    assert stepped.now().mono_us - now.mono_us < 1_000_000
    assert later.now().wall_us - now.wall_us < 1_000_000
