"""Values of a tap's JSON, each checked for type and size; what does not fit is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NoReturn


class JsonError(ValueError):
    """A text is not a JSON object of the kind that is accepted."""


def parse_object(text: bytes) -> Mapping[str, object]:
    """Return a JSON object.

    Raises:
        JsonError: Not UTF-8, not JSON, nested too deeply, a number without end, or no object.
    """
    try:
        value = json.loads(text.decode("utf-8"), parse_constant=_refuse)
    except RecursionError as error:
        raise JsonError("it is nested too deeply") from error
    except ValueError as error:  # of UTF-8, of JSON, of integers with thousands of digits
        raise JsonError(str(error)[:120]) from error
    if not isinstance(value, dict):
        msg = f"it is a {type(value).__name__}, not an object"
        raise JsonError(msg)
    return value


def whole(value: object, most: int) -> int | None:
    """Return a whole number from 0 to ``most``; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most:
        return value
    return None


def text(value: object, most_characters: int) -> str | None:
    """Return a text of bounded length that can be stored as UTF-8; None for anything else."""
    if not isinstance(value, str) or not 0 < len(value) <= most_characters:
        return None
    return value.encode("utf-8", "replace").decode("utf-8")  # JSON may hold half a surrogate pair


def flag(value: object) -> bool | None:
    """Return true or false; None for anything else."""
    return value if isinstance(value, bool) else None


def _refuse(constant: str) -> NoReturn:
    msg = f"{constant} is not a number of JSON"
    raise JsonError(msg)
