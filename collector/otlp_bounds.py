"""What one body of spans may hold, and how soon the next may come."""

from __future__ import annotations

import threading

from stallscope.clock import Clock
from stallscope.units import US_PER_SECOND

LONGEST_BODY = 4 * 1024 * 1024
"""Bytes of a body, packed and unpacked. vLLM sends at most 512 spans at once, below 400 kB."""
MOST_SPANS = 50_000
"""Spans in a body."""
MOST_GROUPS = 4_096
"""Resources and scopes in a body."""
LONGEST_MESSAGE = 65_536
"""Bytes of one span, resource or scope."""
BYTES_PER_SECOND = 20_000_000
"""Bytes of unpacked bodies that are taken in a second."""


class BodyError(ValueError):
    """A body cannot be read at all; the message says why. Sending it again does not help."""


class BusyError(Exception):
    """Too much came at once.

    Args:
        retry_after_s: When to send it again.
    """

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"too much at once: send it again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class ByteBudget:
    """A bucket that fills with time. Safe from any thread.

    Args:
        clock: Monotonic time.
        bytes_per_second: How fast it fills; it holds one second's worth.
    """

    def __init__(self, clock: Clock, bytes_per_second: int = BYTES_PER_SECOND) -> None:
        self._clock = clock
        self._rate = bytes_per_second
        self._lock = threading.Lock()
        self._left = float(bytes_per_second)
        self._filled_us = clock.now().mono_us

    def spend(self, count: int) -> None:
        """Take bytes out. The last ones may overdraw it: then the next wait until that is made up.

        Raises:
            BusyError: It is overdrawn.
        """
        with self._lock:
            self._fill()
            if self._left <= 0:
                raise BusyError(1 + int(-self._left / self._rate))
            self._left -= count

    def charge(self, count: int) -> None:
        """Take out bytes that were not known of when they were let in."""
        with self._lock:
            self._left -= count

    def _fill(self) -> None:
        now_us = self._clock.now().mono_us
        gained = (now_us - self._filled_us) * self._rate / US_PER_SECOND
        self._left = min(float(self._rate), self._left + gained)
        self._filled_us = now_us
