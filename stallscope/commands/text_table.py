"""Tables as people read them in a terminal."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NUMBERS = (int, float)


def text_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return an aligned table with a head line; numbers stand at the right, missing is NULL.

    Args:
        columns: Head of each column.
        rows: Values, one sequence per row.
    """
    cells = [[cell_text(value) for value in row] for row in rows]
    right = [
        all(value is None or isinstance(value, _NUMBERS) for value in column)
        for column in zip(*rows, strict=True)
    ] or [False] * len(columns)
    widths = [max(len(text) for text in column) for column in zip(columns, *cells, strict=True)]
    lines = [
        _line(columns, widths, right),
        "  ".join("-" * width for width in widths),
        *(_line(row, widths, right) for row in cells),
    ]
    return "\n".join(lines) + "\n"


def cell_text(value: object) -> str:
    """Return a value as one line of text.

    Control characters are spelled out: names in a lake come from engines and disks, and a terminal
    would obey an escape sequence.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], str(value))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        text.rjust(width) if to_right else text.ljust(width)
        for text, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(padded).rstrip()
