"""The folder of one query: spilled data, its report. Gone with the query, whatever happens."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "stallscope-sql-"
_YOUNG_S = 60.0


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder, and remove it afterwards with all that is in it.

    A program that is killed leaves its folder behind, up to the spill limit of its query; the next
    query of the same user removes it.
    """
    _remove_orphans(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    held = _lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def _remove_orphans(parent: Path) -> None:
    """Remove folders that nobody holds; young ones may be about to be held."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # another query removes it too, or another user has it
            if time.time() - folder.lstat().st_mtime < _YOUNG_S or folder.is_symlink():
                continue
            held = _lock(folder)
            if held is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(held)


def _lock(folder: Path) -> int | None:
    """Return a descriptor that holds the folder until it is closed, or None when it is held."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(place)
        return None
    return place
