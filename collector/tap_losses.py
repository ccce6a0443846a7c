"""What was lost or refused of late, in words for source_health."""

from __future__ import annotations

from dataclasses import dataclass

from stallscope.units import US_PER_SECOND

_TOLD_US = 10 * US_PER_SECOND
"""So long a loss is told of: source_health has a row a second, and people look less often."""


@dataclass(slots=True)
class _Loss:
    count: int = 0
    last: str = ""
    until_us: int = 0


class TapLosses:
    """Adds up losses until ten seconds after the last of their kind."""

    def __init__(self) -> None:
        self._losses: dict[str, _Loss] = {}

    def note(self, kind: str, count: int, now_us: int, detail: str = "") -> None:
        """Note a loss.

        Args:
            kind: What happened, to be read behind a number: ``datagrams refused``.
            count: How often; 0 is no loss.
            now_us: Monotonic time.
            detail: What exactly, the last time.
        """
        if not count:
            return
        loss = self._losses.setdefault(kind, _Loss())
        if now_us > loss.until_us:
            loss.count = 0
        loss.count += count
        loss.last = detail
        loss.until_us = now_us + _TOLD_US

    def describe(self, now_us: int) -> str:
        """Return what was lost of late; empty when nothing was."""
        return "; ".join(
            f"{loss.count} {kind}" + (f" ({loss.last})" if loss.last else "")
            for kind, loss in self._losses.items()
            if now_us <= loss.until_us
        )
