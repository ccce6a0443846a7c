"""One direction of one link, as a test speaks of it."""

from __future__ import annotations

import time

from lab.nvml.control import FlowName
from lab.nvml.traffic import Pace, Traffic


class Flow:
    """One direction of one link of a GPU.

    Args:
        traffic: All of the GPU's.
        name: Which one.
    """

    def __init__(self, traffic: Traffic, name: FlowName) -> None:
        self._traffic = traffic
        self._name = name

    @property
    def bytes_per_second(self) -> int:
        """Rate while bytes pass; setting it makes the flow steady and keeps what has passed."""
        return self._traffic.leg(self._name).bytes_per_second

    @bytes_per_second.setter
    def bytes_per_second(self, value: int) -> None:
        self._traffic.change({self._name: Pace(value)})

    def set_passed(self, passed_bytes: int) -> None:
        """Set the counter, for example to just below its wrap."""
        self._traffic.set_passed(self._name, passed_bytes)

    def passed_bytes(self, at_ns: int | None = None) -> int:
        """Return the true count at a moment of CLOCK_MONOTONIC, now by default."""
        at_ns = time.monotonic_ns() if at_ns is None else at_ns
        return self._traffic.passed_bytes(self._name, at_ns)

    def bytes_between(self, start_us: int, end_us: int) -> int:
        """Return what passed between two moments of CLOCK_MONOTONIC, in microseconds.

        Counts from before `set_passed` are forgotten.
        """
        return self.passed_bytes(end_us * 1_000) - self.passed_bytes(start_us * 1_000)
