"""What one look at a source or at this installation came to, and the exit status it means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

_BROKEN = frozenset({"restricted", "gone", "failed", "hung"})
"""Broken or forbidden. Absent hardware (not_found, not_applicable, unsupported) is fine."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `stallscope doctor`.

    Attributes:
        source: What was looked at.
        state: In the words of source_health.
        reason: What exactly, in one sentence.
        hint: What to do about it.
    """

    source: str
    state: str
    reason: str
    hint: str

    def as_object(self) -> dict[str, str]:
        """Return the check as programs read it."""
        return asdict(self)


def exit_status(states: Iterable[str]) -> int:
    """Return 1 when something is broken or forbidden, else 0."""
    return int(any(state in _BROKEN for state in states))
