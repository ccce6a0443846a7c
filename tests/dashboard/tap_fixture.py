"""Made-up steps and tokens for the made-up host, as the taps in its engines would tell them.

Each engine has a few lanes, in each of which one request follows another; every number follows from
the second it belongs to. Engine 1 suffers in three ways that the pages must tell apart:

- every `PREFILL_EVERY_S` seconds a long prompt is computed beside the decodes: a step of 620 ms;
- every `STALL_EVERY_S` seconds its server stands still for `STALL_MS`: the engine goes on;
- every `PREEMPT_EVERY_S` seconds the request in its first lane is preempted and resumes later.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from stallscope.context_length import context_class

S = 1_000_000
MS = 1_000
Row = dict[str, object]
Rows = dict[str, list[Row]]

PREFILL_EVERY_S, PREFILL_MS, PREFILL_TOKENS = 41, 620, 38_000
STALL_EVERY_S, STALL_MS = 67, 900
PREEMPT_EVERY_S, PREEMPT_MS = 59, 1_400
LANES = 3
ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/chat/completions")
_PROMPTS = (900, 5_200, 21_000, 41_000)
_LENGTH_S = (13, 17, 23)
_SUFFERS = 1


@dataclass(frozen=True)
class Answer:
    """One request.

    Attributes:
        number: Its id.
        arrival_us: When it arrived.
        first_us: Its first token is in the first step after that moment.
        end_us: It has no step from that moment on.
        lane: Where it runs.
        prompt: Tokens of its prompt.
        queue_us: Time in the queue.
    """

    number: int
    arrival_us: int
    first_us: int
    end_us: int
    lane: int
    prompt: int
    queue_us: int


def _noise(seed: int, place: float) -> float:
    """Return a number from 0 to 1 that looks random and follows from its arguments alone."""
    return math.sin(seed * 127.1 + place * 311.7) * 43_758.5453 % 1


@cache
def steps(engine: int, itl_ms: float, at_s: int) -> tuple[tuple[int, int], ...]:
    """Return (time, prefill tokens) of an engine's steps in one second."""
    end_us, now_us = (at_s + 1) * S, at_s * S
    found: list[tuple[int, int]] = []
    if engine == _SUFFERS and at_s % PREFILL_EVERY_S == 0:
        now_us += PREFILL_MS * MS
        found.append((now_us, PREFILL_TOKENS))
    while True:
        now_us += round(itl_ms * MS * (0.85 + 0.3 * _noise(engine, now_us / MS)))
        if now_us >= end_us:
            return tuple(found)
        busy = _noise(engine + 5, now_us / MS) < 0.06
        found.append((now_us, round(700 * _noise(engine + 9, now_us)) if busy else 0))


def answer(engine: int, lane: int, at_us: int) -> Answer:
    """Return the request that a lane runs at a moment."""
    length_us = _LENGTH_S[lane] * S
    place = (at_us - lane * S) // length_us
    arrival_us = place * length_us + lane * S
    seed = engine * 100 + lane
    queue_us = round(
        MS * (20 + (2_400 if _noise(seed, place) > 0.9 else 90) * _noise(seed, -place))
    )
    prompt = _PROMPTS[(place * 7 + lane) % len(_PROMPTS)]
    first_us = arrival_us + queue_us + MS * 120 + prompt * 18
    end_us = arrival_us + length_us - 400 * MS
    number = (engine * 10 + lane) * 1_000_000 + place % 1_000_000
    return Answer(number, arrival_us, first_us, end_us, lane, prompt, queue_us)


def tap_second(engine: int, itl_ms: float, at_us: int, route: str = "") -> Rows:
    """Return the rows that taps tell of one second of an engine.

    Args:
        engine: Engine id.
        itl_ms: Its usual gap.
        at_us: Begin of the second.
        route: Another path for the first lane.
    """
    at_s = at_us // S
    before = steps(engine, itl_ms, at_s - 1)[-1][0]
    rows: Rows = {
        name: [] for name in ("engine_step", "first_token", "token_gap", "request", "request_name")
    }
    for now_us, prefill in steps(engine, itl_ms, at_s):
        running = [one for lane in range(LANES) if (one := _running(engine, lane, now_us))]
        rows["engine_step"] += _step(engine, now_us, before, prefill, running)
        before = now_us
    for lane in range(LANES):
        ended = answer(engine, lane, at_us)
        rows["token_gap"] += [
            row
            for row in _chunks(engine, itl_ms, ended)
            if at_us <= int(str(row["wall_us"])) < at_us + S
        ]
        if at_us <= ended.end_us < at_us + S:
            path = route if route and lane == 0 else ROUTES[lane]
            rows["request"] += _ended(engine, itl_ms, ended, path)
            rows["request_name"].append(
                {"wall_us": at_us, "request": ended.number, "name": f"{ended.number * 7919:032x}"}
            )
        if at_us <= ended.first_us < at_us + S:
            ttft_us = ended.first_us - ended.arrival_us
            rows["first_token"].append(
                {"wall_us": ended.first_us, "engine": engine, "ttft_us": ttft_us}
            )
    return rows


def _running(engine: int, lane: int, at_us: int) -> Answer | None:
    """Return the request of a lane that gets an output at a moment."""
    found = answer(engine, lane, at_us)
    if not found.first_us <= at_us < found.end_us or _is_preempted(engine, lane, at_us):
        return None
    return found


def _is_preempted(engine: int, lane: int, at_us: int) -> bool:
    return engine == _SUFFERS and lane == 0 and at_us % (PREEMPT_EVERY_S * S) < PREEMPT_MS * MS


def _step(
    engine: int, now_us: int, before_us: int, prefill: int, running: list[Answer]
) -> Iterator[Row]:
    itl_us = now_us - before_us
    begun = before_us // S != now_us // S and now_us % (PREEMPT_EVERY_S * S) < 100 * MS
    resumed = engine == _SUFFERS and not _is_preempted(engine, 0, now_us) and _is_preempted(
        engine, 0, before_us
    )  # fmt: skip
    yield {
        "wall_us": now_us, "mono_us": now_us, "engine": engine, "engine_mono_us": now_us - 77 * S,
        "itl_us": itl_us if running else None, "outputs": len(running) - (1 if resumed else 0),
        "outlier": False, "step_us": itl_us, "generation_tokens": len(running),
        "prefill_tokens": prefill, "prefill_requests": 1 if prefill else 0,
        "running": len(running), "waiting": 2 if prefill > 1_000 else 0,
        "preempted": 1 if begun and engine == _SUFFERS else 0, "kv_usage_ratio": 0.72,
        "prefix_queries": prefill, "prefix_hits": prefill // 3, "finished": 0,
    }  # fmt: skip
    if resumed and any(one.lane == 0 for one in running):
        late_us = now_us % (PREEMPT_EVERY_S * S) + 30 * MS
        yield {
            "wall_us": now_us, "mono_us": now_us, "engine": engine,
            "engine_mono_us": now_us - 77 * S, "itl_us": late_us, "outputs": 1, "outlier": True,
        }  # fmt: skip


@cache
def _chunks(engine: int, itl_ms: float, one: Answer) -> tuple[Row, ...]:
    """Return all chunks of a request."""
    moments = [
        now_us
        for at_s in range(one.first_us // S, one.end_us // S + 1)
        for now_us, _ in steps(engine, itl_ms, at_s)
        if _running(engine, one.lane, now_us) == one
    ]
    rows: list[Row] = []
    last_us: int | None = None
    for index, (sent_us, tokens) in enumerate(_sent(engine, one.lane, moments)):
        itl_us = None if last_us is None else sent_us - last_us
        chunk = {"chunk_index": index, "itl_us": itl_us, "tokens_in_output": tokens}
        rows.append({"wall_us": sent_us, "engine": engine, "request": one.number, **chunk})
        last_us = sent_us
    return tuple(rows)


def _sent(engine: int, lane: int, moments: list[int]) -> list[tuple[int, int]]:
    """Return (time, tokens) of chunks: one per step, but one only for a time of standing still."""
    found: list[tuple[int, int]] = []
    for now_us in moments:
        sent_us = now_us + 600 + 25 * lane
        late_us = sent_us % (STALL_EVERY_S * S)
        stands_still = engine == _SUFFERS and 50 * MS < late_us < STALL_MS * MS
        wakes_us = sent_us - late_us + STALL_MS * MS + 25 * lane if stands_still else sent_us
        if stands_still and found and found[-1][0] == wakes_us:
            found[-1] = (wakes_us, found[-1][1] + 1)
        else:
            found.append((wakes_us, 1))
    return found


def _ended(engine: int, itl_ms: float, one: Answer, route: str) -> Iterator[Row]:
    """Yield what the middleware and the statistics tell of a request that ended."""
    chunks = _chunks(engine, itl_ms, one)
    tokens = sum(int(str(row["tokens_in_output"])) for row in chunks)
    e2e_us, ttft_us = one.end_us - one.arrival_us, one.first_us - one.arrival_us
    known: Row = {
        "wall_us": one.end_us, "mono_us": one.end_us, "engine": engine, "request": one.number,
        "arrival_wall_us": one.arrival_us, "prompt_tokens": one.prompt, "output_tokens": tokens,
        "context_class": context_class(one.prompt), "e2e_us": e2e_us,
        "finish": "abort" if one.number % 11 == 0 else "length",
    }  # fmt: skip
    yield known | {
        "level": "gap", "route": route, "ttft_us": ttft_us, "status": 200, "chunks": len(chunks),
    }  # fmt: skip
    yield known | {
        "level": "step", "queue_us": one.queue_us, "prefill_us": ttft_us - one.queue_us - 3 * MS,
        "decode_us": e2e_us - ttft_us, "inference_us": e2e_us - one.queue_us,
        "preemptions": _preemptions(engine, one), "cached_tokens": one.prompt // 3,
    }  # fmt: skip


def _preemptions(engine: int, one: Answer) -> int:
    every_us = PREEMPT_EVERY_S * S
    crossed = one.end_us // every_us > one.first_us // every_us
    return int(engine == _SUFFERS and one.lane == 0 and crossed)
