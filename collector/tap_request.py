"""One request as a tap tells of it: identity, times and counts, never its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collector.tap_json import flag, text, whole

ASGI, STATS = "asgi", "stats"
"""Who tells: the middleware around the HTTP server, or the engine's statistics."""

_U32 = 2**32 - 2  # its maximum stands for a missing value where columns are packed
_LONGEST_US = 366 * 86_400 * 1_000_000
_LAST_US = 2**62
_WHOLE: Mapping[str, int] = {
    "number": _U32,
    "engine": 254,
    "status": 999,
    "arrival_wall_us": _LAST_US,
    "arrival_mono_us": _LAST_US,
    "end_mono_us": _LAST_US,
    "ttft_us": _LONGEST_US,
    "queue_us": _LONGEST_US,
    "prefill_us": _LONGEST_US,
    "decode_us": _LONGEST_US,
    "inference_us": _LONGEST_US,
    "e2e_us": _LONGEST_US,
    "prompt_tokens": _U32,
    "output_tokens": _U32,
    "cached_tokens": _U32,
    "preemptions": _U32,
    "chunks": _U32,
}
_TEXT: Mapping[str, int] = {"id": 512, "route": 256, "finish": 32}


@dataclass(frozen=True, slots=True)
class TapRequest:
    """What a tap says of a request; None is missing. Names are those of the wire.

    Attributes:
        source: ``asgi`` or ``stats``.
        number: The tap's own number of the request, which its chunks carry.
        id: The engine's id of the request.
        engine: Index of the engine.
        route: Path of the HTTP request.
        status: HTTP status.
        finish: Why it ended.
        aborted: Whether the client gave up.
    """

    source: str
    number: int | None = None
    id: str | None = None
    engine: int | None = None
    route: str | None = None
    status: int | None = None
    finish: str | None = None
    aborted: bool | None = None
    arrival_wall_us: int | None = None
    arrival_mono_us: int | None = None
    end_mono_us: int | None = None
    ttft_us: int | None = None
    queue_us: int | None = None
    prefill_us: int | None = None
    decode_us: int | None = None
    inference_us: int | None = None
    e2e_us: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    preemptions: int | None = None
    chunks: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether this closes the request; a middleware also tells when one begins."""
        return self.source == STATS or (self.end_mono_us, self.finish) != (None, None)


def parse_request(value: object) -> tuple[TapRequest | None, int]:
    """Return a request and how many of its values were refused; None for what is no request.

    A value of a wrong type or size is missing, its neighbours stay; unknown keys are ignored.
    """
    if not isinstance(value, dict) or value.get("source") not in {ASGI, STATS}:
        return None, 1
    facts: dict[str, Any] = {name: whole(value.get(name), most) for name, most in _WHOLE.items()}
    facts |= {name: text(value.get(name), most) for name, most in _TEXT.items()}
    facts["aborted"] = flag(value.get("aborted"))
    refused = sum(
        fact is None and value.get(name) is not None and value.get(name) != ""
        for name, fact in facts.items()
    )
    return TapRequest(str(value["source"]), **facts), refused
