"""An engine that somebody has met, as one source tells others of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownEngine:
    """An engine that was read from its metrics page.

    Attributes:
        engine: Its id.
        name: Name of its address, for people.
        endpoint: The address, as table engine has it.
        host: Host of the address.
        port: Port of the address.
        rank: Data-parallel rank as the engine spells it; '' when it has none.
        model: Served model name; '' when the engine names none.
        seen_mono_us: When its page was read last.
    """

    engine: int
    name: str
    endpoint: str
    host: str
    port: int
    rank: str
    model: str
    seen_mono_us: int


def no_engines() -> Sequence[KnownEngine]:
    """Return no engine: none was met yet."""
    return ()
