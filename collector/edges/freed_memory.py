"""Large blocks of memory go back to the kernel once they are free."""

from __future__ import annotations

import ctypes

_M_MMAP_THRESHOLD = -3  # malloc.h
_THRESHOLD_BYTES = 128 * 1024  # glibc's own default, before it adapts


def return_large_blocks() -> None:
    """Have the C library map every block from 128 KiB on by itself, for the whole process.

    glibc raises that limit to the largest block ever freed, and keeps what is smaller in an arena
    per thread (mallopt(3)): bodies of 4 MiB in eight threads left 200 MB behind for good. Setting
    the limit switches that off. Other C libraries have no such habit, and no such call.
    """
    try:
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)
    except (OSError, AttributeError):
        return
