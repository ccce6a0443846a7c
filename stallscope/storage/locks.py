"""Locks between processes: released by the kernel when their holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stallscope.errors import LakeError


class FileLock:
    """An exclusive flock(2) held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def acquire(self, *, wait: bool) -> bool:
        """Take the lock.

        Args:
            wait: Block until it is free; otherwise return at once.

        Returns:
            Whether the lock is held now.
        """
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)
        return True

    def holder(self) -> str:
        """Return the process id that last took the lock, as text."""
        return os.pread(self._file, 20, 0).decode(errors="replace") or "unknown"

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._file)


def take_writer_lock(path: Path, writer: str) -> FileLock:
    """Take the lock that makes a process the only writer of that name.

    Raises:
        LakeError: Another process holds it; the message names its process id.
    """
    lock = FileLock(path)
    if lock.acquire(wait=False):
        return lock
    holder = lock.holder()
    lock.release()
    msg = f"another '{writer}' (process {holder}) already writes this lake"
    raise LakeError(msg, "Stop it first, or use another lake with --lake")


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock for the length of a with block, waiting for it."""
    lock = FileLock(path)
    try:
        lock.acquire(wait=True)
        yield
    finally:
        lock.release()
