from __future__ import annotations

from collector.tap_clock import TapClock, wall_offset_us
from stallscope.clock import Instant
from tests.collector.stand_ins import SECOND, WALL, ManualClock

_HOUR = 3_600 * SECOND


def _at(mono_us: int, wall_us: int | None = None) -> Instant:
    return Instant(WALL + mono_us if wall_us is None else wall_us, mono_us)


def test_one_clock_is_taken_as_it_is_however_long_a_datagram_took() -> None:
    for way_us in (3, 2 * SECOND, 100 * SECOND):
        clock = TapClock()
        clock.follow(WALL + 500, 500, _at(500 + way_us))
        assert (clock.shift_us, clock.drift_us) == (0, 0)


def test_a_wall_clock_that_was_set_on_the_way_shifts_nothing() -> None:
    clock = TapClock()
    clock.follow(WALL + 500, 500, _at(900, wall_us=WALL + 900 + _HOUR))
    assert clock.shift_us == 0
    assert clock.drift_us == -_HOUR


def test_the_clock_of_a_time_namespace_is_shifted_back() -> None:
    clock = TapClock()
    clock.follow(WALL + 500, 500 - _HOUR, _at(900))  # its clock began an hour after ours
    assert clock.shift_us == _HOUR
    assert clock.drift_us == 0
    clock.follow(WALL + 500, 500 + _HOUR, _at(900))
    assert clock.shift_us == -_HOUR


def test_a_moment_of_the_taps_wall_clock_is_found_on_our_monotonic_one() -> None:
    clock = TapClock()
    clock.follow(WALL + _HOUR + 500, 500, _at(900))  # its wall clock is an hour ahead
    assert clock.mono_of_wall_us(WALL + _HOUR + 450) == 450


class _Hesitant(ManualClock):
    """A clock whose two reads are sometimes far apart."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses = iter((40, 0, 900))

    def now(self) -> Instant:
        wall_us = super().now().wall_us
        self.advance(next(self.pauses))
        return Instant(wall_us, self.mono_us)


def test_a_pause_between_the_two_reads_does_not_count() -> None:
    assert wall_offset_us(_Hesitant()) == WALL
