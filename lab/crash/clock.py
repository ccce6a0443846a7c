"""A clock that runs faster than the machine's, or steps, so that hours fit into a trial."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from stallscope.clock import Instant
from stallscope.units import NS_PER_US, US_PER_SECOND


@dataclass(frozen=True, slots=True)
class LabClock:
    """Both clocks of the machine, driven.

    Attributes:
        pace: Lab seconds per real second. Monotonic time runs as fast, so grace periods and
            compaction windows pass sooner. Two processes with one origin agree.
        origin_us: Real wall-clock time at which lab time and real time are equal.
        steps: (real seconds since this clock was made, offset in microseconds) in order: from then
            on the wall clock is off by that much. Monotonic time never steps.
    """

    pace: float = 1.0
    origin_us: int = 0
    steps: Sequence[tuple[float, int]] = ()
    _made: float = field(default_factory=time.monotonic)

    def now(self) -> Instant:
        """Return both clocks in microseconds."""
        real_us = time.time_ns() // NS_PER_US
        wall_us = self.origin_us + round((real_us - self.origin_us) * self.pace)
        mono_us = round(time.monotonic_ns() * self.pace) // NS_PER_US
        return Instant(wall_us + self._offset_us(), mono_us)

    def _offset_us(self) -> int:
        """Return how far the wall clock is off now."""
        age = time.monotonic() - self._made
        passed = [offset for since, offset in self.steps if age >= since]
        return passed[-1] if passed else 0


def real_now_us() -> int:
    """Return the machine's wall clock in microseconds."""
    return round(time.time() * US_PER_SECOND)
