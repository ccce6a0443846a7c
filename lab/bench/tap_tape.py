"""The taps of busy engines that are not there: a tape of token rows, told as datagrams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from lab.synthetic.tap_datagrams import MISSING, Column, TapSender
from lab.synthetic.tokens import Integers, Tape
from stallscope.clock import Instant

_MOST_GAPS = 1_024  # rows of one datagram, as the tap for vLLM bounds them
_MOST_REQUESTS = 128
_FIRST_PORT = 18_001
_CHUNK_BYTES = 210
_PROMPT_TOKENS = 700
_REQUESTS_OF_ENGINE = 1_000_000  # as the tape numbers them
_STEP_COUNTERS = (
    "prefill_tokens", "prefill_requests", "waiting", "preempted", "prefix_queries", "prefix_hits",
    "finished",
)  # fmt: skip
_NOT_TOLD = (
    "external_queries", "external_hits", "load_time_us", "store_time_us", "load_jobs",
    "store_jobs", "spec_drafts", "spec_accepted_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Letter:
    """A datagram to be sent.

    Attributes:
        data: The datagram.
        gaps: Rows of gaps in it.
        steps: Steps in it.
    """

    data: bytes
    gaps: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class _Open:
    """A request that runs."""

    number: int
    arrival: Instant
    first_chunk: int


class EngineTap:
    """One engine's tap, playing its part of a tape again and again.

    Args:
        tape: Rows of all engines.
        engine: Which one, from 1.
        running: Requests that it runs at once.
        begin: When the tape begins.
    """

    def __init__(self, tape: Tape, engine: int, running: int, begin: Instant) -> None:
        mine = tape.engine == engine
        self._offsets_us = tape.offset_us[mine]
        self._numbers = tape.request[mine] - engine * _REQUESTS_OF_ENGINE
        self._chunks = tape.chunk[mine]
        self._gaps_us = tape.gap_us[mine]
        self._length_us = tape.length_us
        self._running = running
        self._lap_begin_us = begin.mono_us
        self._lap_numbers = int(self._numbers.max()) // running * running + running
        self._lap = self._played = self._sent_chunks = 0
        self._open: dict[int, _Open] = {}
        facts = {"tap": "0.1.0", "pid": engine, "port": _FIRST_PORT + engine, "model": "lab"}
        self._sender = TapSender(session=f"bench-{engine}", facts=facts)

    def take(self, now: Instant) -> Iterator[Letter]:
        """Yield the datagrams that are due, in the order in which a tap sends them."""
        if now.mono_us - self._lap_begin_us >= self._length_us:
            yield from self._take_until(len(self._offsets_us), now)
            self._lap, self._played = self._lap + 1, 0
            self._lap_begin_us += self._length_us
        until = int(np.searchsorted(self._offsets_us, now.mono_us - self._lap_begin_us))
        yield from self._take_until(until, now)

    def _take_until(self, until: int, now: Instant) -> Iterator[Letter]:
        part = slice(self._played, until)
        self._played = until
        count = len(self._offsets_us[part])
        if not count:
            return
        numbers = self._numbers[part] + self._lap * self._lap_numbers
        mono_us = self._offsets_us[part] + self._lap_begin_us
        yield from self._tell_requests(numbers[self._gaps_us[part] < 0], now)
        yield self._tell_steps(mono_us, now)
        columns = _gap_columns(numbers, self._chunks[part], mono_us, self._gaps_us[part])
        for begin in range(0, count, _MOST_GAPS):
            some = {
                name: (code, values[begin : begin + _MOST_GAPS])
                for name, (code, values) in columns.items()
            }
            data = self._sender.gaps(some, now.wall_us, now.mono_us)
            yield Letter(data, gaps=min(_MOST_GAPS, count - begin))
        self._sent_chunks += count

    def _tell_requests(self, begun: Integers, now: Instant) -> Iterator[Letter]:
        """Yield what is told of requests that begin, and of those whose place they take."""
        told: list[Mapping[str, object]] = []
        for number in begun.tolist():
            ended = self._open.pop(number % self._running, None)
            if ended is not None:
                told += _endings(ended, now)
            opened = _Open(number, now, self._sent_chunks)
            self._open[number % self._running] = opened
            told.append(_beginning(opened))
        for first in range(0, len(told), _MOST_REQUESTS):
            some = told[first : first + _MOST_REQUESTS]
            yield Letter(self._sender.requests(some, now.wall_us, now.mono_us))

    def _tell_steps(self, mono_us: Integers, now: Instant) -> Letter:
        """Return the steps in which the rows were made, as many rows each as requests run."""
        ends_us = mono_us[:: self._running]
        count = len(ends_us)
        step_us = np.full(count, (int(mono_us[-1]) - int(mono_us[0])) // count)
        data = self._sender.steps(
            {
                "engine": ("B", [0] * count),
                "main": ("B", [1] * count),
                "wall_us": ("q", ends_us + (now.wall_us - now.mono_us)),
                "engine_mono_us": ("q", ends_us),
                "step_us": ("I", step_us),
                "itl_us": ("I", step_us),
                "outputs": ("I", [self._running] * count),
                "generation_tokens": ("I", [self._running] * count),
                "running": ("I", [self._running] * count),
                "kv_usage_ratio": ("f", [0.5] * count),
                "load_bytes": ("q", [MISSING["q"]] * count),
                "store_bytes": ("q", [MISSING["q"]] * count),
                **{name: ("I", [0] * count) for name in _STEP_COUNTERS},
                **{name: ("I", [MISSING["I"]] * count) for name in _NOT_TOLD},
            },
            now.wall_us,
            now.mono_us,
        )
        return Letter(data, steps=count)


def _gap_columns(
    numbers: Integers, chunks: Integers, mono_us: Integers, gaps_us: Integers
) -> dict[str, Column]:
    count = len(numbers)
    return {
        "request": ("I", numbers),
        "chunk_index": ("H", chunks),
        "mono_us": ("q", mono_us),
        "itl_us": ("I", np.where(gaps_us < 0, MISSING["I"], gaps_us)),
        "tokens": ("B", np.full(count, MISSING["B"])),
        "body_bytes": ("I", np.full(count, _CHUNK_BYTES)),
    }


def _beginning(request: _Open) -> Mapping[str, object]:
    return {
        "source": "asgi",
        "number": request.number,
        "id": f"cmpl-{request.number:032x}",
        "route": "/v1/completions",
        "status": 200,
        "arrival_wall_us": request.arrival.wall_us,
        "arrival_mono_us": request.arrival.mono_us,
    }


def _endings(request: _Open, now: Instant) -> tuple[Mapping[str, object], ...]:
    """Return what the middleware and the engine's statistics tell of a request's end."""
    e2e_us = now.mono_us - request.arrival.mono_us
    same = {
        "finish": "length",
        "aborted": False,
        "end_mono_us": now.mono_us,
        "e2e_us": e2e_us,
        "prompt_tokens": _PROMPT_TOKENS,
        "output_tokens": 300,
        "cached_tokens": 0,
    }
    middleware = {**_beginning(request), **same, "ttft_us": e2e_us // 100, "chunks": 302}
    statistics = {
        **same,
        "source": "stats",
        "id": f"cmpl-{request.number:032x}-0",
        "engine": 0,
        "arrival_wall_us": request.arrival.wall_us,
        "queue_us": 900,
        "prefill_us": e2e_us // 100,
        "decode_us": e2e_us - e2e_us // 100,
        "inference_us": e2e_us,
        "preemptions": 0,
    }
    return middleware, statistics
