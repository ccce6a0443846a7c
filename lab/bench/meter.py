"""CPU time and memory of a process and its children, from the kernel's own books."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_UTIME, _STIME, _CHILD_UTIME, _CHILD_STIME, _RSS = 11, 12, 13, 14, 21  # proc(5), after the name


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process tree has used.

    Attributes:
        cpu_s: CPU seconds since its start, ended children included.
        resident_bytes: Memory resident now, all processes added up.
    """

    cpu_s: float
    resident_bytes: int


def read_usage(pid: int) -> Usage:
    """Return the usage of a process and its living children.

    Raises:
        OSError: The process is gone.
    """
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    ticks = sum(int(fields[i]) for i in (_UTIME, _STIME, _CHILD_UTIME, _CHILD_STIME))
    children = [read_usage(child) for child in _children(pid)]
    return Usage(
        ticks / _TICKS + sum(child.cpu_s for child in children),
        int(fields[_RSS]) * _PAGE_BYTES + sum(child.resident_bytes for child in children),
    )


def _children(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found += (thread / "children").read_text(encoding="ascii").split()
    return [int(child) for child in found]
