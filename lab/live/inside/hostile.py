"""Feeds both taps, inside the engine's own event loop, with what no engine would hand them.

``--middleware hostile.HostileMiddleware`` besides the tap's own, this folder on PYTHONPATH. After a
POST to `START` every tenth step and every request bring one more hostile object. What a tap lets
out ends up where it would in earnest: in vLLM's output handler, or in the answer to a request.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

from stallscope_vllm import TokenTap
from stallscope_vllm.stat_logger import StallscopeStatLogger

App = Any
Logger = Any
Message = Any
Scope = Any
Value = Any
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_EVERY = 10
START = "/stallscope-lab/hostile"
"""POST to this path begins it, and is not found."""


class Raising:
    """An object every use of which raises.

    Args:
        error: What it raises.
    """

    def __init__(self, error: BaseException) -> None:
        object.__setattr__(self, "_error", error)

    def __getattribute__(self, name: str) -> Value:
        raise object.__getattribute__(self, "_error")

    def __len__(self) -> int:
        raise object.__getattribute__(self, "_error")

    def __iter__(self) -> Iterator[Any]:
        raise object.__getattribute__(self, "_error")

    def __bool__(self) -> bool:
        raise object.__getattribute__(self, "_error")

    def __eq__(self, other: object) -> bool:
        raise object.__getattribute__(self, "_error")

    def __hash__(self) -> int:
        raise object.__getattribute__(self, "_error")


class Endless:
    """An object whose every attribute is another of its kind."""

    def __getattr__(self, name: str) -> Endless:
        return Endless()

    def __iter__(self) -> Iterator[float]:
        return itertools.repeat(0.01)


def hostile_stats() -> list[Any]:
    """Return stats objects as no engine makes them: wrong types, sizes, and objects that raise."""
    numbers: tuple[Value, ...] = (
        math.nan,
        math.inf,
        -1,
        10**400,
        "7",
        b"7",
        True,
        [],
        {},
        None,
        1j,
        object(),
    )
    gaps = [*numbers, *[0.01] * 2_000]
    wrong = [
        SimpleNamespace(
            iteration_timestamp=number,
            inter_token_latencies_iter=gaps,
            time_to_first_tokens_iter=gaps,
            finished_requests=[SimpleNamespace(request_id=number, e2e_latency=number), number],
            num_generation_tokens=number,
            prompt_token_stats=number,
            num_running_reqs=number,
            kv_cache_usage=number,
            kv_connector_stats={"data": {"vllm:kv_offload_load_bytes": number}},
            prefix_cache_stats=number,
        )
        for number in numbers
    ]
    raising = [
        Raising(error)
        for error in (
            ValueError("hostile"),
            RecursionError("hostile"),
            MemoryError("hostile"),
            asyncio.CancelledError("hostile"),
            GeneratorExit("hostile"),
            BaseException("hostile"),
        )
    ]
    return [*wrong, *raising, Endless(), 7, "text", b"bytes", [], {}]


class _Feed:
    """Which hostile object comes next, and when."""

    def __init__(self) -> None:
        self.is_on = False
        self.steps = 0
        self.stats = itertools.cycle(hostile_stats())


_feed = _Feed()
_record = StallscopeStatLogger.record


def _record_and_more(self: Logger, *arguments: Value, **named: Value) -> None:
    _record(self, *arguments, **named)
    _feed.steps += 1
    if _feed.is_on and _feed.steps % _EVERY == 0:
        one, other = next(_feed.stats), next(_feed.stats)
        _record(self, one, other, other, one)
        _record(self, other, one, engine_idx=one)


StallscopeStatLogger.record = _record_and_more  # type: ignore[method-assign] # in place of vLLM


def hostile_scopes() -> list[Any]:
    """Return scopes as no server makes them."""
    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": []}
    return [
        {**scope, "server": ("x", "y")},
        {**scope, "path": 7},
        {**scope, "server": 7},
        {"type": "http"},
        {},
        None,
        7,
    ]


_MESSAGES: tuple[Any, ...] = (
    {"type": "http.response.start", "status": "x", "headers": 7},
    {"type": "http.response.start", "status": 200, "headers": [(b"content-type", 7)]},
    {"type": "http.response.start", "headers": [(b"content-type", b"text/event-stream")]},
    {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-type", b"text/event-stream")],
    },
    {"type": "http.response.body", "body": 7, "more_body": True},
    {"type": "http.response.body", "body": b'data: {"id":' + b"[" * 9_999, "more_body": True},
    {"type": "http.response.body", "body": "text", "more_body": True},
    {"type": "http.response.body", "body": b"\xff\xfe", "more_body": True},
    {"type": "http.response.body"},
    {"type": 7},
    {},
    7,
    None,
)


class HostileMiddleware:
    """Runs, before each request, one through a tap of its own that is hostile in every message.

    Args:
        app: The app inside.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._tap = TokenTap(_send_hostile)
        self._scopes = itertools.cycle(hostile_scopes())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a hostile request pass, then the real one."""
        if scope.get("path") == START:
            _feed.is_on = True
        elif _feed.is_on and scope.get("method") == "POST":
            await self._tap(next(self._scopes), _receive_nothing, _drop)
        await self._app(scope, receive, send)


async def _send_hostile(scope: Scope, receive: Receive, send: Send) -> None:
    del scope
    await receive()
    for message in _MESSAGES:
        await send(message)


async def _receive_nothing() -> Message:
    return Raising(ValueError("hostile"))


async def _drop(message: Message) -> None:
    del message
