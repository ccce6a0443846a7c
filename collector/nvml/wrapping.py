"""Adding up two byte counters that may wrap at 32 bits. Pure.

Fields 197 and 198 are "PCIe bytes, value can be wrapped" (nvml.h). The kernel's control call
returns 32 bits (open-gpu-kernel-modules, NvU32), and 2**32 bytes pass in 68 ms on a link of
generation 5 with 16 lanes. So a growth is known only if less can have passed since the reading
before.
"""

from __future__ import annotations

from dataclasses import dataclass

from stallscope.units import US_PER_SECOND

WRAP_BYTES = 1 << 32
_SAFE_SHARE = 0.9  # of the wrap time: the moment of a reading is known to some ms only
_SLACK_US = 5_000  # how far the time between two readings may be off
_FASTEST_BYTES_PER_SECOND = 121e9  # generation 6 with 16 lanes: for links that do not tell


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted over one window.

    Attributes:
        rx_bytes: To the GPU, over the time that is covered.
        tx_bytes: From the GPU.
        covered_us: How much of the window was counted.
        window_us: From the end of the window before; None for the first.
    """

    rx_bytes: int
    tx_bytes: int
    covered_us: int
    window_us: int | None


class ByteCounts:
    """Adds up what two counters gained from reading to reading.

    Args:
        bytes_per_second: The most that the link can carry in one direction; None when unknown.

    Attributes:
        wide: A value beyond 32 bits was seen, so nothing wraps.
    """

    def __init__(self, bytes_per_second: float | None) -> None:
        self._rate = bytes_per_second or _FASTEST_BYTES_PER_SECOND
        self.wide = False
        self._last: tuple[int, int, int] | None = None
        self._window_start_us: int | None = None
        self._rx_bytes = self._tx_bytes = self._covered_us = 0

    @property
    def wrap_us(self) -> int:
        """The shortest time in which a counter can come around."""
        return int(WRAP_BYTES / self._rate * US_PER_SECOND)

    def note(self, at_us: int, rx: int, tx: int) -> None:
        """Take in one reading.

        What happened since the reading before is counted only where it is certain: not after a gap
        in which a counter can have come around, nor when more was gained than the link can carry
        (the counter was reset).

        Args:
            at_us: When, on a monotonic clock.
            rx: The counter of bytes to the GPU.
            tx: The counter of bytes from the GPU.
        """
        self.wide = self.wide or rx >= WRAP_BYTES or tx >= WRAP_BYTES
        if self._last is not None:
            before_us, rx_before, tx_before = self._last
            self._add(at_us - before_us, self._gain(rx_before, rx), self._gain(tx_before, tx))
        self._last = at_us, rx, tx

    def take(self) -> Counted:
        """Return what was counted since the last time, up to the last reading."""
        end_us = self._last[0] if self._last else None
        start_us, self._window_start_us = self._window_start_us, end_us
        window_us = None if start_us is None or end_us is None else end_us - start_us
        counted = Counted(self._rx_bytes, self._tx_bytes, self._covered_us, window_us)
        self._rx_bytes = self._tx_bytes = self._covered_us = 0
        return counted

    def forget(self) -> None:
        """Begin anew: what happened since the last reading will not be known."""
        self._last = self._window_start_us = None
        self._rx_bytes = self._tx_bytes = self._covered_us = 0

    def _gain(self, before: int, now: int) -> int | None:
        if self.wide:
            return now - before if now >= before else None
        return (now - before) % WRAP_BYTES

    def _add(self, gap_us: int, rx: int | None, tx: int | None) -> None:
        if rx is None or tx is None or gap_us <= 0:
            return
        if not self.wide and gap_us > self.wrap_us * _SAFE_SHARE:
            return
        if max(rx, tx) > self._rate * (gap_us + _SLACK_US) / US_PER_SECOND:
            return
        self._rx_bytes += rx
        self._tx_bytes += tx
        self._covered_us += gap_us
