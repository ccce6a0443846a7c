"""The clocks of a tap and ours: one monotonic clock in all usual cases, two wall clocks never.

CLOCK_MONOTONIC counts for all processes of a host alike, in containers too; only a time namespace
(time_namespaces(7)) shifts it. Wall clocks are one as well, but may step between two looks.
"""

from __future__ import annotations

from stallscope.clock import Clock, Instant
from stallscope.units import US_PER_SECOND

_LONGEST_WAY_US = 5 * US_PER_SECOND  # a tap keeps datagrams for 2 s when nobody listens
_LOOKS = 3


def wall_offset_us(clock: Clock) -> int:
    """Return our wall time less our monotonic time, at this moment.

    The wall clock is read first, so a pause between the two reads only makes the difference
    smaller: the largest of some looks is the best.
    """
    looks = (clock.now() for _ in range(_LOOKS))
    return max(look.wall_us - look.mono_us for look in looks)


class TapClock:
    """Turns a tap's monotonic times into ours.

    Attributes:
        shift_us: Our monotonic time less the tap's; 0 where the two are one clock.
        drift_us: Difference of the two wall clocks at the last datagram, as far as monotonic time
            tells: some microseconds, or a step that was made on the way.
    """

    def __init__(self) -> None:
        self.shift_us = 0
        self.drift_us = 0
        self._offset_us = 0

    def follow(self, wall_us: int, mono_us: int, received: Instant) -> None:
        """Compare clocks.

        Args:
            wall_us: The tap's wall clock when it closed a datagram.
            mono_us: Its monotonic clock at the same moment.
            received: When the datagram was here.
        """
        self._offset_us = wall_us - mono_us
        difference_us = self._offset_us - (received.wall_us - received.mono_us)
        way_us = received.mono_us - mono_us
        is_one_clock = 0 <= way_us <= _LONGEST_WAY_US or abs(difference_us) < _LONGEST_WAY_US
        self.shift_us = 0 if is_one_clock else difference_us
        self.drift_us = difference_us - self.shift_us

    def mono_of_wall_us(self, wall_us: int) -> int:
        """Return the moment on our monotonic clock that the tap told by its wall clock."""
        return wall_us - self._offset_us + self.shift_us
