"""Rows of table request, from what taps tell at a request's end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from collector.source import Row
from collector.tap_lane import Letter
from collector.tap_request import STATS, TapRequest
from collector.tap_requests import TapRequests
from collector.tap_sessions import TapSession
from stallscope.clock import Instant
from stallscope.context_length import context_class
from stallscope.units import US_PER_SECOND

_OLDEST_US = 600 * US_PER_SECOND
_FINISHES: Mapping[str, str] = {
    **{name: name for name in ("stop", "length", "abort", "error", "repetition")},
    "tool_calls": "stop",  # how the HTTP API calls a stop of its own
    "content_filter": "stop",
}
_SAME = (
    "route",
    "status",
    "prompt_tokens",
    "output_tokens",
    "ttft_us",
    "queue_us",
    "prefill_us",
    "decode_us",
    "inference_us",
    "e2e_us",
    "preemptions",
    "cached_tokens",
    "chunks",
)


def request_rows(letter: Letter, requests: TapRequests, source: str, at: Instant) -> Iterator[Row]:
    """Yield the rows of the requests that ended, as one of the two parts of a tap tells.

    Args:
        letter: A datagram; those that tell of no requests give no rows.
        requests: Gives ids, also to requests that only begin.
        source: Which part: ``asgi`` or ``stats``.
        at: The present, both clocks of the same moment.

    Raises:
        SourceError: No ids can be reserved.
    """
    for told in letter.message.requests:
        if told.source != source:
            continue
        request = requests.follow(letter.session, told)
        if request is not None and told.has_ended:
            index = told.engine if source == STATS else requests.engine_of(letter.session, told)
            yield request_row(told, letter.session, letter.engine(index), request, at)


def request_row(
    told: TapRequest, session: TapSession, engine: int, request: int, at: Instant
) -> Row:
    """Return the row of a request that has ended.

    Args:
        told: What the tap says.
        session: The tap.
        engine: Id of the engine.
        request: Id of the request.
        at: The present, both clocks of the same moment: the row's wall time is counted from it.
    """
    end_us = _end_us(told, session, at)
    return {
        **{name: getattr(told, name) for name in _SAME},
        "wall_us": at.wall_us - at.mono_us + end_us,
        "mono_us": end_us,
        "engine": engine,
        "request": request,
        "arrival_wall_us": _arrival_us(told, session, at),
        "context_class": context_class(told.prompt_tokens),
        "tpot_us": _tpot_us(told),
        "finish": _finish(told),
        "level": "step" if told.source == STATS else "gap",
    }


def _end_us(told: TapRequest, session: TapSession, at: Instant) -> int:
    """Return when it ended on our monotonic clock; now, when the tap says what cannot be."""
    if told.end_mono_us is None:
        return at.mono_us
    end_us = told.end_mono_us + session.clock.shift_us
    return end_us if abs(at.mono_us - end_us) <= _OLDEST_US else at.mono_us


def _arrival_us(told: TapRequest, session: TapSession, at: Instant) -> int | None:
    """Return when it arrived, on our wall clock as it stands now."""
    if told.arrival_mono_us is not None:
        mono_us = told.arrival_mono_us + session.clock.shift_us
    elif told.arrival_wall_us is not None:
        mono_us = session.clock.mono_of_wall_us(told.arrival_wall_us)
    else:
        return None
    arrival_us = at.wall_us - at.mono_us + mono_us
    return arrival_us if 0 < arrival_us <= at.wall_us else None


def _tpot_us(told: TapRequest) -> float | None:
    """Return the mean time of an output token after the first."""
    if told.output_tokens is None or told.output_tokens < 2:  # noqa: PLR2004 - two make one pause
        return None
    if told.decode_us is not None:
        return told.decode_us / (told.output_tokens - 1)
    if told.e2e_us is None or told.ttft_us is None or told.e2e_us < told.ttft_us:
        return None
    return (told.e2e_us - told.ttft_us) / (told.output_tokens - 1)


def _finish(told: TapRequest) -> str | None:
    if told.finish is None:
        return "abort" if told.aborted else None
    return _FINISHES.get(told.finish)
