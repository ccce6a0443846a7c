"""Classes of context length: requests of one class are comparable, those of two are not."""

from __future__ import annotations

from bisect import bisect_left

CONTEXT_CLASSES: tuple[tuple[int | None, str], ...] = (
    (2_048, "2k"),
    (8_192, "8k"),
    (32_768, "32k"),
    (None, "long"),
)
"""Each class as (most prompt tokens, name); the last one has no bound."""

_BOUNDS = [bound for bound, _ in CONTEXT_CLASSES if bound is not None]


def context_class(prompt_tokens: int | None) -> str | None:
    """Return the class of a prompt's length; None when the length is not known."""
    if prompt_tokens is None:
        return None
    return CONTEXT_CLASSES[bisect_left(_BOUNDS, prompt_tokens)][1]
