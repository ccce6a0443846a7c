"""One question about the hardware and what came out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from collector.edges.nvml_errors import NvmlError
from lab.hardware.load import LoadError
from lab.hardware.subject import Subject


@dataclass(frozen=True, slots=True)
class Answer:
    """What came out.

    Attributes:
        question: The question.
        verdict: One or two sentences with the figures that matter; empty when not answered.
        head: Columns of a table behind it.
        rows: Its rows.
        why_not: Why there is no answer; empty when there is.
    """

    question: str
    verdict: str = ""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    why_not: str = ""


class UnansweredError(Exception):
    """A question cannot be answered here; the message says why."""


Examine: TypeAlias = Callable[[Subject], Answer]
"""Answers a question about a subject; it may raise NvmlError, LoadError or UnansweredError."""


def ask(question: str, examine: Examine, subject: Subject) -> Answer:
    """Return the answer to a question, or why there is none."""
    try:
        return examine(subject)
    except (NvmlError, LoadError, UnansweredError) as error:
        return Answer(question, why_not=str(error))
