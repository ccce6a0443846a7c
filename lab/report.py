"""What a lab command prints: one line per check or figure, aligned, and whether all is well."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One promise that was put to the proof.

    Attributes:
        name: What was tried.
        holds: Whether it held; None when it could not be tried here.
        detail: The figures, or why it could not be tried.
        judged: False for a figure that is told and holds no promise.
    """

    name: str
    holds: bool | None
    detail: str
    judged: bool = True

    @property
    def word(self) -> str:
        """Return the verdict in one word."""
        if not self.judged:
            return "told"
        return {True: "ok", False: "FAILED", None: "skipped"}[self.holds]


def say(line: str) -> None:
    """Print a line of progress to stderr, so that results can be piped."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a header, columns as wide as their widest cell."""
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        sys.stdout.write("  ".join(padded).rstrip() + "\n")
    sys.stdout.flush()


def print_checks(checks: Sequence[Check]) -> int:
    """Print checks as a table and return the exit status: 1 when one failed, else 0."""
    print_table(("", "check", "figures"), [(c.word, c.name, c.detail) for c in checks])
    return int(any(check.judged and check.holds is False for check in checks))
