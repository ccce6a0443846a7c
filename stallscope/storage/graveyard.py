"""Files that no longer count stay a while: an engineer's open shell may still read them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from pathlib import Path

from stallscope.clock import Clock
from stallscope.units import US_PER_SECOND


class Graveyard:
    """Deletes files once their grace period, measured on the monotonic clock, is over."""

    def __init__(self, clock: Clock, grace_s: float) -> None:
        self._clock = clock
        self._grace_us = round(grace_s * US_PER_SECOND)
        self._waiting: deque[tuple[int, Path]] = deque()

    def bury(self, *paths: Path) -> None:
        """Let files go after the grace period."""
        due = self._clock.now().mono_us + self._grace_us
        self._waiting.extend((due, path) for path in paths)

    def clear(self, in_use: Collection[Path]) -> int:
        """Delete what is due and return how many files that were.

        A file that cannot be deleted is tried again in the next round.

        Args:
            in_use: Files that count. A process killed between a segment's rename and its commit
                leaves a file that is buried at the next start, and then made again under the same
                name: it must stay.
        """
        now = self._clock.now().mono_us
        deleted = 0
        for _ in range(len(self._waiting)):
            due, path = self._waiting[0]
            if due > now:
                break
            self._waiting.popleft()
            if path in in_use:
                continue
            try:
                path.unlink(missing_ok=True)
                deleted += 1
            except OSError:
                self._waiting.append((now + self._grace_us, path))
        return deleted
