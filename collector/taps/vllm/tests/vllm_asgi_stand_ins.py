"""Apps and clients on the two sides of the middleware."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from stallscope_vllm import TokenTap

WRITTEN = "ZEBRA-77-is-what-the-person-wrote"
ID = "cmpl-0123456789abcdef"

App = Callable[[Any, Any, Any], Awaitable[None]]


def token(text: str = WRITTEN, index: int = 0, **last: Any) -> bytes:
    """Return a chunk of /v1/completions as vLLM 0.32 writes it."""
    choice = {
        "index": index,
        "text": text,
        "logprobs": None,
        "finish_reason": last.pop("finish", None),
        "stop_reason": None,
        "token_ids": None,
    }
    return event({**head("text_completion"), "choices": [choice], **last})


def usage(prompt: int = 400, output: int = 3, cached: int | None = 256) -> bytes:
    details = None if cached is None else {"cached_tokens": cached}
    counts = {
        "prompt_tokens": prompt,
        "total_tokens": prompt + output,
        "completion_tokens": output,
        "prompt_tokens_details": details,
    }
    return event({**head("text_completion"), "choices": [], "usage": counts})


DONE = b"data: [DONE]\n\n"


def head(kind: str, name: str = ID) -> dict[str, Any]:
    return {"id": name, "object": kind, "created": 1_700_000_000, "model": "served"}


def event(content: Any, name: str | None = None) -> bytes:
    text = b"data: " + compact(content) + b"\n\n"
    return text if name is None else b"event: " + name.encode() + b"\n" + text


def compact(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def scope(path: str = "/v1/completions", **changes: Any) -> dict[str, Any]:
    fields = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": [(b"content-type", b"application/json")],
        "server": ("127.0.0.1", 8_123),
    }
    return {**fields, **changes}


def start(content_type: bytes = b"text/event-stream; charset=utf-8", status: int = 200) -> Any:
    headers = [(b"x-other", b"1"), (b"Content-Type", content_type)]
    return {"type": "http.response.start", "status": status, "headers": headers}


def body(content: Any, *, more: bool = True) -> Any:
    return {"type": "http.response.body", "body": content, "more_body": more}


def streaming(chunks: Iterable[bytes], pause_s: float = 0.0) -> App:
    """Return an app that streams as Starlette does: one message per chunk, then an empty one."""

    async def app(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(start())
        for chunk in chunks:
            await asyncio.sleep(pause_s)
            await send(body(chunk))
        await send(body(b"", more=False))

    return app


def answering(content: bytes, status: int = 200) -> App:
    """Return an app that answers in one piece."""

    async def app(_: Any, __: Any, send: Any) -> None:
        await send(start(b"application/json", status))
        await send({"type": "http.response.body", "body": content})

    return app


class Client:
    """The server's side of a connection: keeps what is sent, hands out what is received."""

    def __init__(self, *messages: Any) -> None:
        self.sent: list[Any] = []
        self._messages = list(messages)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def receive(self) -> Any:
        if self._messages:
            return self._messages.pop(0)
        return {"type": "http.request", "body": WRITTEN.encode(), "more_body": False}


def serve(app: App, request: Any = None, client: Client | None = None) -> Client:
    """Run one request through the middleware."""
    client = client or Client()
    asyncio.run(TokenTap(app)(request or scope(), client.receive, client.send))
    return client
