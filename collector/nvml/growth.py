"""What counters gained between two readings. Pure."""

from __future__ import annotations

from collections.abc import Mapping


class Growth:
    """Turns counters into what they gained."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def note(self, counters: Mapping[str, int]) -> dict[str, int]:
        """Return what each counter gained since the reading before.

        A counter that is new, or fell because the driver was loaded anew, is left out: what it
        gained is not known.
        """
        before, self._before = self._before, dict(counters)
        return {
            name: value - before[name]
            for name, value in counters.items()
            if name in before and value >= before[name]
        }

    def forget(self) -> None:
        """Begin anew."""
        self._before = {}
