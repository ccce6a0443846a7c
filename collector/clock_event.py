"""Source clock_event: what the wall clock did, so that times in the lake can be trusted or not.

Durations are monotonic everywhere; this says how wall times relate to them: at start, when the
wall clock steps, and when no time service keeps it.
"""

from __future__ import annotations

from collections.abc import Callable

from collector.edges.kernel_clock import is_synchronised
from collector.source import Machine, NoData, Reading, Row
from stallscope.clock import Instant, read_boot_id
from stallscope.units import US_PER_MS, US_PER_SECOND

_STEP_US = 50 * US_PER_MS  # ntpd slews by 0.5 ms per second; what is faster is told as a step
_YEAR_2015_US = 1_420_070_400 * US_PER_SECOND  # devices without a battery boot in 1970 or 2000
_STEPPED = "the wall clock was set, or the machine slept"
_BOOTED_WRONG = "the wall clock is before 2015, so it was never set"
_NOT_KEPT = "the kernel says that no time service keeps the wall clock"

IsSynchronised = Callable[[], bool | None]
"""Returns whether a time service keeps the wall clock, None when that cannot be asked."""


class ClockEvent:
    """Events of the wall clock.

    Args:
        machine: What may be touched.
        interval_us: Wanted pace.
        synchronised: Asks the kernel.
    """

    name = "clock_event"
    tables = ("clock_event",)

    def __init__(
        self,
        machine: Machine,
        *,
        interval_us: int = US_PER_SECOND,
        synchronised: IsSynchronised = is_synchronised,
    ) -> None:
        self.interval_us = interval_us
        self.deadline_us = US_PER_SECOND
        self._clock = machine.clock
        self._synchronised = synchronised
        self._proc = machine.proc
        self._boot_id = ""
        self._offset_us: int | None = None
        self._trouble = ""

    def read(self) -> Reading | NoData:
        """Return the events since the poll before, mostly none."""
        now = self._clock.now()
        before_us = self._offset_us
        if before_us is None:
            self._boot_id = read_boot_id(self._proc)
            rows = [_describe("start", now, self._boot_id)]
        else:
            now, rows = self._notice_step(now, before_us)
        self._offset_us = _offset(now)
        return Reading({self.name: [*rows, *self._notice_trouble(now)]})

    def close(self) -> None:
        """Hold nothing open."""

    def _notice_step(self, now: Instant, before_us: int) -> tuple[Instant, list[Row]]:
        """Return a row if the wall clock was set since the poll before, and when that was seen."""
        if abs(_offset(now) - before_us) > _STEP_US:
            # The clocks are read one after the other: a pause in between looks like a step, but
            # hardly twice.
            now = self._clock.now()
        step_us = _offset(now) - before_us
        if abs(step_us) <= _STEP_US:
            return now, []
        return now, [_describe("step", now, self._boot_id, step_us=step_us, detail=_STEPPED)]

    def _notice_trouble(self, now: Instant) -> list[Row]:
        """Return a row when the wall clock ceased to be trustworthy, or is so again."""
        before, self._trouble = self._trouble, self._find_trouble(now)
        if before == self._trouble:
            return []
        kind = "unsynchronised" if self._trouble else "synchronised"
        return [_describe(kind, now, self._boot_id, detail=self._trouble or None)]

    def _find_trouble(self, now: Instant) -> str:
        """Return why wall times are not to be trusted, empty when nothing is known against them."""
        if now.wall_us < _YEAR_2015_US:
            return _BOOTED_WRONG
        return _NOT_KEPT if self._synchronised() is False else ""


def _offset(now: Instant) -> int:
    """Return wall time less monotonic time."""
    return now.wall_us - now.mono_us


def _describe(
    kind: str, now: Instant, boot_id: str, *, step_us: int | None = None, detail: str | None = None
) -> Row:
    """Return the row of an event."""
    return {
        "wall_us": now.wall_us,
        "mono_us": now.mono_us,
        "kind": kind,
        "boot_id": boot_id,
        "wall_minus_mono_us": _offset(now),
        "step_us": step_us,
        "detail": detail,
    }
