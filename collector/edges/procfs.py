"""Reading files of /proc: bounded, one descriptor per polled file, decoded without ever failing.

Roots come as arguments, so a recorded machine can stand in. Such a machine is changed by rewriting
its files in place: a polled file is read through the descriptor that was opened first.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from collector.source import State

_CHUNK_BYTES = 65_536
_LIMIT_BYTES = 1_048_576

_STATES = {
    errno.EACCES: State.RESTRICTED,
    errno.EPERM: State.RESTRICTED,
    errno.ENOENT: State.UNSUPPORTED,
    errno.EOPNOTSUPP: State.UNSUPPORTED,  # kernel/sched/psi.c: the file is there, psi is off
    errno.ESRCH: State.GONE,
    errno.ENODEV: State.GONE,
}


class PolledFile:
    """A file that is read again and again from its start.

    Args:
        path: The file; it need not exist yet.
        limit: Most bytes it may hold; more is an error rather than half a line.
    """

    def __init__(self, path: Path, limit: int = _LIMIT_BYTES) -> None:
        self.path = path
        self._limit = limit
        self._descriptor: int | None = None

    def read(self) -> str:
        """Return the whole text; bytes that are not UTF-8 are replaced.

        Raises:
            OSError: It cannot be opened or read, or is longer than the limit. The next call opens
                it anew.
        """
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            return _read_from_start(self._descriptor, self._limit).decode("utf-8", "replace")
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Give back the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _read_from_start(descriptor: int, limit: int) -> bytes:
    """Return all bytes of an open file; seq files hand out about a page per call."""
    parts: list[bytes] = []
    size = 0
    while data := os.pread(descriptor, _CHUNK_BYTES, size):
        parts.append(data)
        size += len(data)
        if size > limit:
            raise OSError(errno.EFBIG, f"longer than {limit} bytes")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_text(path: Path, limit: int = _LIMIT_BYTES) -> str:
    """Return the text of a file that is read once.

    Raises:
        OSError: It cannot be opened or read, or is longer than ``limit`` bytes.
    """
    file = PolledFile(path, limit)
    try:
        return file.read()
    finally:
        file.close()


def read_beginning(path: Path, size: int) -> str:
    """Return at most the first ``size`` bytes of a file as text.

    Raises:
        OSError: It cannot be opened or read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, size, 0).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def list_processes(proc: Path) -> list[int]:
    """Return the ids of all visible processes, ascending.

    Raises:
        OSError: The root cannot be listed.
    """
    with os.scandir(proc) as entries:
        names = [entry.name for entry in entries]
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def state_of(error: OSError) -> State:
    """Return what a failed open or read says about its source, in the words of source_health."""
    return _STATES.get(error.errno or 0, State.FAILED)


def explain(error: OSError) -> str:
    """Return the reason of a failed open or read without the path, for people."""
    return (error.strerror or type(error).__name__).lower()
