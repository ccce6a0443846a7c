"""How requests and pauses are spelled: lengths, times, and what the engine did meanwhile."""

from __future__ import annotations

from dashboard import formats
from dashboard.request_rows import Pause, Request
from stallscope.context_length import CONTEXT_CLASSES

ALL_LENGTHS = "All lengths"
ALL_ROUTES = "All routes"
_MOST_OF_IT = 0.8
_LITTLE_OF_IT = 0.5
_LONG_PROMPT = 2_000
"""Prompt tokens computed in a pause from which they are worth a word."""


def class_words() -> dict[str, str]:
    """Return the classes of context length in words, and their names in the lake."""
    words = {}
    below = ""
    for bound, name in CONTEXT_CLASSES:
        words[f"over {below}" if bound is None else f"up to {name}"] = name
        below = name
    return words


def class_name(context: str | None) -> str:
    """Return a class in words."""
    words = {name: word for word, name in class_words().items()}
    return "length not known" if context is None else words.get(context, context)


def latency_or(us: float | None, word: str = formats.DASH) -> str:
    """Return a latency, or a word for a missing one."""
    return word if us is None else formats.latency(us)


def tokens(count: float | None, word: str = formats.DASH) -> str:
    """Return a number of tokens, or a word for a missing one."""
    return word if count is None else formats.number(count)


def ended(request: Request) -> str:
    """Return how a request ended."""
    if request.status is not None and request.status >= 400:  # noqa: PLR2004 - HTTP errors
        return f"HTTP {request.status}"
    return request.finish or "not told"


def meanwhile(pause: Pause) -> tuple[str, str]:
    """Return (what the engine did in a pause, what more is to say of it)."""
    if pause.steps is None or pause.engine_itl_us is None:
        return "not known", "no step of the engine was told in that time"
    if pause.level == "step":
        return "the engine itself", _work(pause)
    share = pause.engine_itl_us / pause.itl_us
    own = f"its longest gap then was {formats.latency(pause.engine_itl_us)}"
    if share >= _MOST_OF_IT:
        return "the engine itself", _work(pause) or own
    if share < _LITTLE_OF_IT:
        return "not the engine", own
    return "partly the engine", own


def blame(pause: Pause) -> str:
    """Return a sentence on whether the engine made a pause, and by doing what."""
    what, more = meanwhile(pause)
    if what == "not known":
        return f"What the engine did then is not known: {more}."
    if what != "the engine itself":
        return f"{what.capitalize()}: {more}."
    doing = _work(pause)
    return f"The engine itself{f': in that time it {doing}' if doing else ''}."


def _work(pause: Pause) -> str:
    """Return what stands out in what the engine did."""
    parts = []
    if pause.preempted:
        parts.append(f"preempted {formats.count(pause.preempted, 'request')}")
    if pause.prefill_tokens and pause.prefill_tokens >= _LONG_PROMPT:
        parts.append(f"computed {formats.number(pause.prefill_tokens)} prompt tokens")
    if pause.load_bytes:
        parts.append(f"loaded {formats.disk_bytes(pause.load_bytes)} of KV")
    if pause.store_bytes:
        parts.append(f"stored {formats.disk_bytes(pause.store_bytes)} of KV")
    return formats.joined(parts)
