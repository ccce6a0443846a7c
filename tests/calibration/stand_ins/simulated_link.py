"""A host link that is only calculated: two streams share it, and events note when work was done.

``STAND_IN_LINK`` says how fast it is, in bytes per second, as JSON: ``rx`` and ``tx`` while the
other direction is idle, ``rx_together`` and ``tx_together`` while it is not. ``room`` is the
largest buffer there is memory for.
"""

from __future__ import annotations

import json
import os

LINK: dict[str, float] = json.loads(os.environ.get("STAND_IN_LINK", "{}"))


class Event:
    """Notes the moment at which the work before it was done."""

    def __init__(self) -> None:
        self.seconds: float | None = None


class Simulation:
    """Queues of the two directions: pairs of direction and size, and events."""

    def __init__(self) -> None:
        self.now = 0.0
        self.queues: dict[str, list[float | Event]] = {"rx": [], "tx": []}

    def enqueue(self, direction: str, item: float | Event) -> None:
        """Add a copy of so many bytes, or an event."""
        self.queues[direction].append(item)

    def run(self) -> None:
        """Let time pass until both queues are empty."""
        while any(self.queues.values()):
            self._note_events()
            rates = self._rates()
            if not rates:
                continue
            step = min(self._left(direction) / rate for direction, rate in rates.items())
            self.now += step
            for direction, rate in rates.items():
                self._advance(direction, rate * step)

    def _note_events(self) -> None:
        for queue in self.queues.values():
            while queue and isinstance(queue[0], Event):
                queue[0].seconds = self.now
                del queue[0]

    def _rates(self) -> dict[str, float]:
        busy = [direction for direction, queue in self.queues.items() if queue]
        suffix = "_together" if len(busy) > 1 else ""
        return {direction: LINK[direction + suffix] for direction in busy}

    def _left(self, direction: str) -> float:
        size = self.queues[direction][0]
        assert not isinstance(size, Event)
        return size

    def _advance(self, direction: str, size: float) -> None:
        left = self._left(direction) - size
        self.queues[direction][0] = left
        if left < 1e-3:
            del self.queues[direction][0]


SIMULATION = Simulation()


def check_room(size: int) -> None:
    """Raise as CUDA does when a buffer does not fit."""
    if size > LINK.get("room", size):
        raise RuntimeError("CUDA out of memory")
