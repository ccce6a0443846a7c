"""When a source is read: ticks on a fixed grid, so that a late one does not shift the next."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """How a poll started against its plan.

    Attributes:
        lag_us: How long after its tick.
        skipped: Ticks that passed meanwhile and are not made up for.
    """

    lag_us: int
    skipped: int


@dataclass(slots=True)
class Pace:
    """A grid of ticks on the monotonic clock.

    Attributes:
        interval_us: Distance of ticks.
        due_us: The next tick, monotonic.
    """

    interval_us: int
    due_us: int

    def wait_us(self, now_us: int) -> int:
        """Return how long it is until the next tick; 0 when it is due."""
        return max(0, self.due_us - now_us)

    def start(self, now_us: int) -> Start:
        """Begin the poll that is due and move on to the first tick after ``now_us``."""
        lag_us = max(0, now_us - self.due_us)
        skipped = lag_us // self.interval_us
        self.due_us += (skipped + 1) * self.interval_us
        return Start(lag_us, skipped)

    def follow(self, interval_us: int, now_us: int) -> None:
        """Go on at another interval, counted from the last tick; a rest is kept.

        A tick that would then have been due already is due now: nobody is late for it.
        """
        if interval_us != self.interval_us:
            self.due_us = max(now_us, self.due_us + interval_us - self.interval_us)
            self.interval_us = interval_us

    def rest(self, now_us: int, pause_us: int) -> None:
        """Leave out, on purpose, the ticks that lie within a pause."""
        missing = now_us + pause_us - self.due_us
        if missing > 0:
            self.due_us += -(-missing // self.interval_us) * self.interval_us
