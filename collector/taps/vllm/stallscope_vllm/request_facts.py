"""What one finished request was, out of vLLM's FinishedRequestStats: numbers and its id only."""

from __future__ import annotations

from typing import Any

from stallscope_vllm.wire import known, microseconds, whole

MOST_ID = 256  # ids of disaggregated serving carry two addresses

_DURATIONS = {
    "queue_us": "queued_time",
    "prefill_us": "prefill_time",
    "decode_us": "decode_time",
    "inference_us": "inference_time",
    "e2e_us": "e2e_latency",
}
_COUNTS = {
    "prompt_tokens": "num_prompt_tokens",
    "output_tokens": "num_generation_tokens",
    "cached_tokens": "num_cached_tokens",
    "preemptions": "num_preemptions",
}
EMPTY: dict[str, Any] = {
    "source": None,
    "number": None,
    "id": None,
    "engine": None,
    "route": None,
    "status": None,
    "finish": None,
    "aborted": None,
    "arrival_wall_us": None,
    "arrival_mono_us": None,
    "end_mono_us": None,
    "ttft_us": None,
    **dict.fromkeys(_DURATIONS),
    **dict.fromkeys(_COUNTS),
    "chunks": None,
}
"""Every key of a request's object; null is missing."""


def read_finished(stats: Any, engine: object, wall_us: int, mono_us: int) -> dict[str, Any]:
    """Return the request's object for the wire.

    Args:
        stats: vLLM's object; a field it lacks is missing.
        engine: Index of its engine.
        wall_us: Wall clock of its last step.
        mono_us: The same moment, monotonic.
    """
    finish = _reason(getattr(stats, "finish_reason", None))
    facts = {
        **EMPTY,
        "source": "stats",
        "id": _text(getattr(stats, "request_id", None)),
        "engine": known(whole(engine, "B"), "B"),
        "finish": finish,
        "aborted": None if finish is None else finish == "abort",
        "end_mono_us": mono_us,
    }
    for name, theirs in _DURATIONS.items():
        facts[name] = known(microseconds(getattr(stats, theirs, None)))
    for name, theirs in _COUNTS.items():
        facts[name] = known(whole(getattr(stats, theirs, None)))
    if facts["e2e_us"] is not None:  # both are frontend wall clock
        facts["arrival_wall_us"] = wall_us - facts["e2e_us"]
    return facts


def _reason(finish: Any) -> str | None:
    """Return vLLM's FinishReason (an IntEnum) as its own text spells it."""
    name = getattr(finish, "name", None)
    return _text(name.lower() if isinstance(name, str) else finish)


def _text(value: Any) -> str | None:
    return value[:MOST_ID] if isinstance(value, str) else None
