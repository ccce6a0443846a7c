"""What people are told on stderr: one line each, what is wrong and what to do."""

from __future__ import annotations

import sys

from stallscope.errors import StallscopeError

_ENDS = (".", "!", "?", ":")


def complain(error: StallscopeError) -> None:
    """Say what is wrong and what to do, on one line."""
    tell(sentence(error))


def tell(line: str) -> None:
    """Say something that is not the result."""
    sys.stderr.write(f"stallscope: {' '.join(line.split())}\n")


def sentence(error: StallscopeError) -> str:
    """Return an error and its hint as sentences."""
    message = error.message if error.message.endswith(_ENDS) else f"{error.message}."
    return f"{message} {error.hint}".strip()
