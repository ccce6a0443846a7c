"""Reading attributes of /sys: one value per file, absent and unreadable alike are None.

Roots come as arguments, so a recorded machine can stand in.
"""

from __future__ import annotations

import os
from pathlib import Path

from collector.edges.procfs import read_beginning

_ATTRIBUTE_BYTES = 4_096  # the kernel hands out one page at most (Documentation/filesystems/sysfs)


def read_attribute(path: Path) -> str | None:
    """Return a value without surrounding blanks; None when absent, unreadable or empty."""
    try:
        return read_beginning(path, _ATTRIBUTE_BYTES).strip("\0 \t\r\n") or None
    except (OSError, ValueError):  # ValueError: a name with a NUL byte in it
        return None


def read_integer(path: Path) -> int | None:
    """Return a whole number; None when absent, unreadable or no number."""
    text = read_attribute(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def list_names(path: Path) -> tuple[str, ...]:
    """Return the names in a folder, sorted; none when it is absent or unreadable."""
    try:
        with os.scandir(path) as entries:
            return tuple(sorted(entry.name for entry in entries))
    except (OSError, ValueError):
        return ()


def exists(path: Path) -> bool:
    """Return whether there is something at that path that we may see."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def resolve(path: Path) -> Path | None:
    """Return the place in the device tree that a link stands for; None when it leads nowhere."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # RuntimeError: a loop of links (Python < 3.13)
        return None
