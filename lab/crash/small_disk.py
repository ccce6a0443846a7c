"""A small file system of one's own, to be filled down to the last byte."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stallscope.errors import StallscopeError

MIB = 1 << 20
"""Bytes."""


def fill(path: Path) -> None:
    """Write a file until nothing more fits, down to the last byte."""
    for block in (bytes(MIB), bytes(4_096), b"\0"):
        _write_until_full(path, block)


def _write_until_full(path: Path, block: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        while os.write(file, block):
            pass
    except OSError:  # ENOSPC is what we came for
        pass
    finally:
        os.close(file)


def why_no_mount(*programs: str) -> str:
    """Return why nothing can be mounted here, or an empty string."""
    if os.geteuid() != 0:
        return "needs root to mount a small file system"
    missing = [name for name in ("mount", "umount", *programs) if shutil.which(name) is None]
    return f"needs {', '.join(missing)}" if missing else ""


@contextmanager
def mounted(folder: Path, arguments: list[str]) -> Iterator[None]:
    """Mount something for a while.

    Raises:
        StallscopeError: The mount was refused.
    """
    folder.mkdir(exist_ok=True)
    run_command(["mount", *arguments, str(folder)])
    try:
        yield
    finally:
        _retry(lambda: run_command(["umount", str(folder)]))


def _retry(work: Callable[[], None], attempts: int = 20) -> None:
    """Try until it works: a process that was just killed may still hold the mount."""
    for _ in range(attempts - 1):
        try:
            return work()
        except StallscopeError:
            time.sleep(0.2)
    return work()


def run_command(command: list[str]) -> None:
    """Run a command.

    Raises:
        StallscopeError: It failed.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StallscopeError(f"{' '.join(command)}: {done.stderr.strip()}")
