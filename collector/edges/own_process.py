"""What this process itself costs, with the children it started."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from stallscope.units import NS_PER_US, US_PER_SECOND

_USER_TICKS, _SYSTEM_TICKS = 11, 12  # fields 14 and 15 of stat (proc_pid_stat(5)), behind the name
_RESIDENT_PAGES = 1  # field 2 of statm (proc_pid_statm(5))


@dataclass(frozen=True, slots=True)
class OwnCost:
    """Cost of the collector's process and of its children.

    Attributes:
        cpu_us: CPU time of all threads since the start. It may fall by what a child took that was
            left behind.
        resident_bytes: Resident memory, pages that processes share counted for each; None where
            statm cannot be read.
    """

    cpu_us: int
    resident_bytes: int | None


def read_own_cost(own: Path = Path("/proc/self")) -> OwnCost:
    """Return what this process costs.

    Args:
        own: Its folder. Not under a mounted host tree: ``self`` there is another process. Children
            are looked for beside it; where the kernel does not list them (CONFIG_PROC_CHILDREN),
            only those that have ended are counted.
    """
    children = [own.parent / pid for pid in _list_children(own / "task")]
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended_us = round((ended.ru_utime + ended.ru_stime) * US_PER_SECOND)
    own_us = time.process_time_ns() // NS_PER_US
    resident = _resident_bytes(own)
    if resident is not None:
        resident += sum(_resident_bytes(child) or 0 for child in children)
    return OwnCost(own_us + ended_us + sum(map(_cpu_us, children)), resident)


def _list_children(tasks: Path) -> list[str]:
    """Return the process ids of living children, each listed by the thread that started it."""
    try:
        threads = list(tasks.iterdir())
    except OSError:
        return []
    return [pid for thread in threads for pid in _read_children(thread / "children")]


def _read_children(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").split()
    except OSError:  # the kernel lists no children, or the thread ended meanwhile
        return []


def _cpu_us(process: Path) -> int:
    """Return the CPU time of a process; 0 when it ended meanwhile: it is among the ended then."""
    try:
        stat = (process / "stat").read_text(encoding="utf-8", errors="replace")
        words = stat.rpartition(")")[2].split()
        ticks = int(words[_USER_TICKS]) + int(words[_SYSTEM_TICKS])
    except (OSError, ValueError, IndexError):
        return 0
    return ticks * US_PER_SECOND // os.sysconf("SC_CLK_TCK")


def _resident_bytes(process: Path) -> int | None:
    """Return the resident memory of a process; None when it cannot be read."""
    try:
        pages = int((process / "statm").read_text(encoding="ascii").split()[_RESIDENT_PAGES])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
