"""One streamed completion over HTTP/1.1, timed chunk by chunk on the client's monotonic clock.

Written on plain asyncio streams: a client library would add its own buffering between the socket
and the time stamp.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from stallscope.units import NS_PER_US

_DATA = b"data: "
_DONE = b"[DONE]"


@dataclass(slots=True)
class Timings:
    """What the client saw of one request.

    Attributes:
        start_us: When the request was sent, client monotonic.
        chunks_us: When each chunk with a token arrived.
        end_us: When the answer was complete; 0 while it is not.
        prompt_tokens: As the engine's usage block says.
        output_tokens: As the engine's usage block says.
        error: Why it failed; empty when it did not.
        request_id: The engine's id of the request, as its answer says.
    """

    start_us: int
    chunks_us: list[int] = field(default_factory=list)
    end_us: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    error: str = ""
    request_id: str = ""

    @property
    def ttft_us(self) -> int:
        """Return the time to the first chunk."""
        return self.chunks_us[0] - self.start_us

    @property
    def gaps_us(self) -> list[int]:
        """Return the pauses between chunks."""
        return [b - a for a, b in zip(self.chunks_us, self.chunks_us[1:], strict=False)]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to send.

    Attributes:
        model: Served model name.
        prompt: Token ids, so that both ends count the same tokens.
        output_tokens: How many tokens to generate; the end token is ignored.
        continuous_usage: Ask for the token counts with every chunk, not only in the end.
    """

    model: str
    prompt: tuple[int, ...]
    output_tokens: int
    continuous_usage: bool = False

    def body(self) -> bytes:
        """Return the request body for /v1/completions."""
        content = {
            "model": self.model,
            "prompt": list(self.prompt),
            "max_tokens": self.output_tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {
                "include_usage": True,
                "continuous_usage_stats": self.continuous_usage,
            },
        }
        return json.dumps(content).encode()


async def stream_completion(host: str, port: int, ask: Ask) -> Timings:
    """Send one request and follow its stream to the end.

    Failures are told in ``error``, they never raise: a load goes on without the request.
    """
    timings = Timings(start_us=_now_us())
    try:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(_request(host, port, ask.body()))
            await writer.drain()
            await _follow(reader, timings)
        finally:
            writer.close()
    except (OSError, asyncio.IncompleteReadError, ValueError) as error:
        timings.error = f"{type(error).__name__}: {error}"
    return timings


def _request(host: str, port: int, body: bytes) -> bytes:
    """Return the whole HTTP request; the connection carries only this one."""
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Accept: text/event-stream\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


async def _follow(reader: asyncio.StreamReader, timings: Timings) -> None:
    """Read the answer to its end and note each token's arrival."""
    status = await _read_head(reader)
    if status != 200:  # noqa: PLR2004 - the HTTP status for success
        timings.error = f"HTTP {status}"
        return
    async for event in _events(reader):
        if event == _DONE:
            timings.end_us = _now_us()
            return
        _note(json.loads(event), timings)
    timings.error = "the stream ended without [DONE]"


def _note(event: dict[str, object], timings: Timings) -> None:
    """Book one event: a token chunk, the usage block at the end, or both at once."""
    timings.request_id = timings.request_id or str(event.get("id", ""))
    usage = event.get("usage")
    if isinstance(usage, dict):
        timings.prompt_tokens = int(usage["prompt_tokens"])
        timings.output_tokens = int(usage["completion_tokens"])
    if event.get("choices"):
        timings.chunks_us.append(_now_us())


async def _read_head(reader: asyncio.StreamReader) -> int:
    """Read status line and headers; return the status."""
    status = int((await reader.readline()).split(b" ", 2)[1])
    while (await reader.readline()).strip():
        pass
    return status


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the data of each server-sent event of a chunked body.

    An HTTP chunk may hold several events, and an event may span chunks: both are put together here.
    """
    pending = b""
    while size := int(await reader.readline(), 16):
        pending += await reader.readexactly(size)
        await reader.readline()
        *events, pending = pending.split(b"\n\n")
        for event in events:
            if event.startswith(_DATA):
                yield event.removeprefix(_DATA)


def _now_us() -> int:
    return time.monotonic_ns() // NS_PER_US
