"""Clocks as an argument: real code reads the machine's, tests hand in their own."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stallscope.units import NS_PER_US


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment on two clocks.

    Attributes:
        wall_us: UTC microseconds since 1970 (CLOCK_REALTIME); it may step.
        mono_us: Microseconds since boot (CLOCK_MONOTONIC); it never steps.
    """

    wall_us: int
    mono_us: int


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> Instant:
        """Return both clocks, read back to back."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> Instant:
        """Return CLOCK_REALTIME and CLOCK_MONOTONIC in microseconds."""
        return Instant(
            wall_us=time.time_ns() // NS_PER_US,
            mono_us=time.monotonic_ns() // NS_PER_US,
        )


def read_boot_id(proc: Path) -> str:
    """Return the kernel's boot id, which says how far monotonic times compare.

    Args:
        proc: Root of the proc file system, usually ``/proc``.

    Returns:
        The id, or ``unknown`` where the file is hidden (restricted containers).
    """
    try:
        return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return "unknown"
