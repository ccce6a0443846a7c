"""How often a counter that wraps is read, so that following it stays cheap. Pure.

A stretch of readings, each near enough to the one before, then a rest. Time in a rest is not
measured: coverage says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from stallscope.units import US_PER_SECOND

_CPU_SHARE = 0.01  # of one core, per GPU
_CYCLE_US = US_PER_SECOND // 2  # short, so that each poll finds a part of it in its window
_SHORTEST_STRETCH = 2  # readings: one alone measures nothing


@dataclass(frozen=True, slots=True)
class Plan:
    """When to read.

    Attributes:
        interval_us: Between two readings of a stretch.
        readings: How many readings make a stretch, after which the plan is made anew.
        rest_us: Pause after a stretch beyond the usual interval; 0 for going on without one.
    """

    interval_us: int
    readings: int
    rest_us: int


def plan_following(wrap_us: int, cpu_us: float) -> Plan:
    """Return when to read a counter.

    Args:
        wrap_us: The shortest time in which it can come around.
        cpu_us: CPU time that one reading takes.
    """
    interval_us = wrap_us // 2  # at most half: leaves almost as much again for a late thread
    if cpu_us <= interval_us * _CPU_SHARE:
        return Plan(interval_us, max(1, _CYCLE_US // interval_us), 0)
    readings = max(_SHORTEST_STRETCH, int(_CYCLE_US * _CPU_SHARE / cpu_us))
    cycle_us = readings * cpu_us / _CPU_SHARE
    return Plan(interval_us, readings, int(cycle_us - readings * interval_us))
