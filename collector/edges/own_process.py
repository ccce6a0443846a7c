"""What this process itself costs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from stallscope.units import NS_PER_US


@dataclass(frozen=True, slots=True)
class OwnCost:
    """Cost of the collector's process.

    Attributes:
        cpu_us: CPU time of all its threads since it began.
        resident_bytes: Resident memory; None where statm cannot be read.
    """

    cpu_us: int
    resident_bytes: int | None


def read_own_cost(statm: Path = Path("/proc/self/statm")) -> OwnCost:
    """Return what this process costs.

    Args:
        statm: Its statm file. Not under a mounted host tree: ``self`` there is another process.
    """
    return OwnCost(time.process_time_ns() // NS_PER_US, _resident_bytes(statm))


def _resident_bytes(statm: Path) -> int | None:
    """Return field 2 of statm, in pages (proc_pid_statm(5)), as bytes."""
    try:
        pages = int(statm.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
