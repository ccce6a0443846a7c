"""CPU time and memory of a process and its children, from the kernel's own books."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
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
    """Return the usage of a process and its living children, and theirs.

    Raises:
        OSError: The process is gone.
    """
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    ticks = sum(int(fields[i]) for i in (_UTIME, _STIME, _CHILD_UTIME, _CHILD_STIME))
    children = list(_usages(_children(pid), _command(pid)))
    return Usage(
        ticks / _TICKS + sum(child.cpu_s for child in children),
        int(fields[_RSS]) * _PAGE_BYTES + sum(child.resident_bytes for child in children),
    )


def _usages(pids: Iterable[int], parent: bytes) -> Iterator[Usage]:
    """Yield the usages of children.

    One that is about to become another program (between vfork and exec) shows its parent's memory
    as its own; it is told by its parent's command line, and its memory is counted once.
    """
    for pid in pids:
        # One that has just ended is in its parent's books from the next reading on.
        with contextlib.suppress(OSError):
            usage = read_usage(pid)
            yield Usage(usage.cpu_s, 0) if _command(pid) == parent else usage


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _children(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that ends leaves its children to another
            found += (thread / "children").read_text(encoding="ascii").split()
    return [int(child) for child in found]
