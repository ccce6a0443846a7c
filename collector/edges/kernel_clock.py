"""Asking the kernel whether some time service keeps the wall clock. Reads only, needs no right."""

from __future__ import annotations

import ctypes

_UNSYNCHRONISED = 0x0040  # STA_UNSYNC, include/uapi/linux/timex.h
_FAILED = -1


class _Timex(ctypes.Structure):
    """The beginning of struct timex, and room for the rest of it."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("frequency", ctypes.c_long),
        ("maximum_error", ctypes.c_long),
        ("estimated_error", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def is_synchronised() -> bool | None:
    """Return whether the kernel takes its wall clock for synchronised (adjtimex(2), modes 0).

    Returns:
        None where it cannot be asked: another libc, or a sandbox that forbids the call.
    """
    state = _Timex()
    try:
        answer = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(state))
    except (OSError, AttributeError):
        return None
    if answer == _FAILED:
        return None
    return not state.status & _UNSYNCHRONISED
