"""Streaming load: so many requests at once for so long, with shared prefixes and mixed lengths."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from lab.live.stream import Ask, Timings, stream_completion

_SHARED_PREFIXES = 3
_SHARED_TOKENS = 256  # two whole KV blocks of 128: enough for the prefix cache to hit
_FIRST_PLAIN_TOKEN = 300  # past the special tokens and single bytes
_LAST_PLAIN_TOKEN = 1_500


@dataclass(frozen=True, slots=True)
class Load:
    """What to send.

    Attributes:
        host: Engine's address.
        port: Its port.
        model: Served model name.
        streams: Requests in flight at any time.
        seconds: No request starts after this long; those in flight are followed to their end.
        seed: Same seed, same requests in the same order.
        requests: No more than so many.
        output_tokens: Answers have at least and at most so many.
        continuous_usage: Ask for the token counts with every chunk.
    """

    host: str
    port: int
    model: str
    streams: int = 12
    seconds: float = 30
    seed: int = 1
    requests: int = 4_096
    output_tokens: tuple[int, int] = (8, 96)
    continuous_usage: bool = False


def make_asks(load: Load) -> Sequence[Ask]:
    """Return the requests of a load in the order in which they are taken; more than it can use."""
    dice = random.Random(load.seed)
    prefixes = [_tokens(dice, _SHARED_TOKENS) for _ in range(_SHARED_PREFIXES)]
    return [_make_ask(load, dice, prefixes) for _ in range(load.requests)]


def _make_ask(load: Load, dice: random.Random, prefixes: list[tuple[int, ...]]) -> Ask:
    shared = dice.choice(prefixes) if dice.random() < 0.5 else ()  # noqa: PLR2004 - one half
    prompt = shared + _tokens(dice, dice.randint(16, 400))
    return Ask(load.model, prompt, dice.randint(*load.output_tokens), load.continuous_usage)


def _tokens(dice: random.Random, count: int) -> tuple[int, ...]:
    return tuple(dice.randint(_FIRST_PLAIN_TOKEN, _LAST_PLAIN_TOKEN) for _ in range(count))


def run_load(load: Load) -> list[Timings]:
    """Send the load and return what the client saw of every request, failed ones included."""
    return asyncio.run(_run(load))


async def _run(load: Load) -> list[Timings]:
    asks = iter(make_asks(load))
    deadline = time.monotonic() + load.seconds
    done: list[Timings] = []

    async def follow_one_after_another() -> None:
        while time.monotonic() < deadline and (ask := next(asks, None)):
            done.append(await stream_completion(load.host, load.port, ask))

    await asyncio.gather(*(follow_one_after_another() for _ in range(load.streams)))
    return done
