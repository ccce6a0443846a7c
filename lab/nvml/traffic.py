"""What passes over the links of one GPU: rates that change while the library reads them."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from lab.nvml.control import FlowName, Leg, TrafficControl

_NS = 1_000_000_000
_NS_PER_US = 1_000
_LEAD_NS = 2_000  # until the odd turn is seen by every core, before the new rates begin


@dataclass(frozen=True, slots=True)
class Pace:
    """Bytes per second, all the time or during the first ``on_us`` of every ``period_us``.

    Attributes:
        bytes_per_second: Rate while bytes pass.
        on_us: Length of a burst; without meaning when ``period_us`` is 0.
        period_us: From one burst to the next; 0 for a steady flow.
    """

    bytes_per_second: int
    on_us: int = 0
    period_us: int = 0


class Traffic:
    """All directions of one GPU. The library and this class count the same bytes, to the byte.

    To be changed by one thread.
    """

    def __init__(self, control: TrafficControl) -> None:
        self._control = control
        self._history: dict[FlowName, list[Leg]] = {name: [] for name in FlowName}
        since_ns = self._begin()
        self._finish({name: Leg(0, 0, since_ns, 0, 0) for name in FlowName}, since_ns)

    def leg(self, name: FlowName) -> Leg:
        """Return how a direction goes now."""
        return self._history[name][-1]

    def change(self, paces: Mapping[FlowName, Pace]) -> None:
        """Let directions go on at other paces from one moment on; what passed stays counted."""
        since_ns = self._begin()
        legs = {name: _continue(self.leg(name), since_ns, pace) for name, pace in paces.items()}
        self._finish(legs, since_ns)

    def set_passed(self, name: FlowName, passed_bytes: int) -> None:
        """Set a counter, for example to just below its wrap; its history begins anew."""
        since_ns = self._begin()
        old = self.leg(name)
        self._history[name].clear()
        leg = Leg(passed_bytes, old.bytes_per_second, since_ns, old.on_ns, old.period_ns)
        self._finish({name: leg}, since_ns)

    def passed_bytes(self, name: FlowName, at_ns: int) -> int:
        """Return the true count at a moment of CLOCK_MONOTONIC.

        A moment before the first pace has the count with which that pace began.
        """
        legs = self._history[name]
        index = bisect_right(legs, at_ns, key=lambda leg: leg.since_ns)
        return count_bytes(legs[max(0, index - 1)], at_ns)

    def _begin(self) -> int:
        """Let the library wait; return the moment from which other legs may hold."""
        self._control.turn += 1
        return time.monotonic_ns() + _LEAD_NS

    def _finish(self, legs: Mapping[FlowName, Leg], since_ns: int) -> None:
        """Fill the set that nobody reads, wait for its moment and let it hold."""
        for name, leg in legs.items():
            self._history[name].append(leg)
        turn = self._control.turn + 1
        spare = self._control.sets[turn // 2 % 2]
        for name in FlowName:
            spare[name] = self.leg(name)
        while time.monotonic_ns() < since_ns:
            pass
        self._control.turn = turn


def count_bytes(leg: Leg, at_ns: int) -> int:
    """Return what has passed at a moment, as the library counts it."""
    active_ns = max(0, at_ns - leg.since_ns)
    if leg.period_ns:
        periods, rest_ns = divmod(active_ns, leg.period_ns)
        active_ns = periods * leg.on_ns + min(rest_ns, leg.on_ns)
    return leg.base_bytes + active_ns * leg.bytes_per_second // _NS


def _continue(leg: Leg, since_ns: int, pace: Pace) -> Leg:
    passed_bytes = count_bytes(leg, since_ns)
    period_ns, on_ns = pace.period_us * _NS_PER_US, pace.on_us * _NS_PER_US
    return Leg(passed_bytes, pace.bytes_per_second, since_ns, on_ns, period_ns)
