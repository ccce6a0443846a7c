"""Unsigned decimal numbers as the kernel prints them. Pure."""

from __future__ import annotations

_DIGITS = 18  # whole numbers of so many digits fit a signed 64-bit integer


def parse_whole(text: str) -> int | None:
    """Return an unsigned number; None when it is none or would not fit a column.

    Stricter than ``int``, which also takes signs, blanks, underscores and digits of other scripts.
    """
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    return None
