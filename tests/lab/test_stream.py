from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from lab.live.stream import Ask, Timings, stream_completion

_ASK = Ask("m", (300, 301, 302), 3)


def _event(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"text": text}]}).encode() + b"\n\n"


_USAGE = (
    b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}\n\n'
    b"data: [DONE]\n\n"
)


def _ask(pieces: Sequence[bytes], status: str = "200 OK") -> tuple[Timings, bytes]:
    """Serve one answer in HTTP chunks, and return what the client made of it and sent."""
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.readuntil(b"\r\n\r\n"))
        received.extend(await reader.read(4_096))
        writer.write(f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for piece in pieces:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        writer.close()

    async def run() -> Timings:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            return await stream_completion("127.0.0.1", server.sockets[0].getsockname()[1], _ASK)

    return asyncio.run(run()), bytes(received)


def test_each_token_chunk_is_stamped_and_the_usage_block_is_not_a_token() -> None:
    timings, sent = _ask([_event("a"), _event("b"), _USAGE])
    assert len(timings.chunks_us) == 2
    assert (timings.prompt_tokens, timings.output_tokens, timings.error) == (3, 2, "")
    assert timings.start_us <= timings.chunks_us[0] <= timings.chunks_us[1] <= timings.end_us
    assert b'"prompt": [300, 301, 302]' in sent


@pytest.mark.parametrize("cut", [1, 7, 20])
def test_event_that_spans_two_http_chunks_is_one_event(cut: int) -> None:
    event = _event("a")
    timings, _ = _ask([event[:cut], event[cut:] + _event("b") + _USAGE])
    assert len(timings.chunks_us) == 2
    assert timings.error == ""


def test_stream_that_ends_early_is_an_error_and_keeps_what_came() -> None:
    timings, _ = _ask([_event("a")])
    assert len(timings.chunks_us) == 1
    assert timings.end_us == 0
    assert "DONE" in timings.error


def test_refusal_is_told_by_its_status() -> None:
    timings, _ = _ask([], status="503 Service Unavailable")
    assert timings.error == "HTTP 503"


def test_nobody_there_is_an_error_and_not_an_exception() -> None:
    timings = asyncio.run(stream_completion("127.0.0.1", 1, _ASK))
    assert "Refused" in timings.error


def test_gaps_lie_between_chunks() -> None:
    timings = Timings(start_us=100, chunks_us=[150, 160, 190], end_us=200)
    assert timings.ttft_us == 50
    assert timings.gaps_us == [10, 30]
