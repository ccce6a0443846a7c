"""The middleware: what is stamped, what is learned, and that the app does not notice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from vllm_asgi_stand_ins import (
    DONE,
    ID,
    WRITTEN,
    App,
    Client,
    answering,
    body,
    compact,
    event,
    head,
    scope,
    serve,
    start,
    streaming,
    token,
    usage,
)
from vllm_stand_ins import tapped_to_collector
from vllm_wire_reader import GAPS, Collector

from stallscope_vllm import TokenTap


def _follow(app: App, request: Any = None, client: Client | None = None) -> Collector:
    """Run one request and return the collector with all that came of it."""
    with tapped_to_collector() as (tap, collector):
        serve(app, request, client)
        tap.close()
        collector.read()
    assert all(WRITTEN.encode() not in data for data in collector.raw)
    return collector


def test_a_stream_becomes_a_row_per_chunk_and_a_request() -> None:
    chunks = [token(), token(), token(finish="length"), usage(), DONE]
    collector = _follow(streaming(chunks, pause_s=0.02))
    rows = collector.rows(GAPS)
    assert [row["chunk_index"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["tokens"] for row in rows] == [None, None, None, 0, 0]
    assert [row["body_bytes"] for row in rows] == [len(chunk) for chunk in chunks]
    assert [row["itl_us"] is None for row in rows] == [True, False, False, True, True]
    assert rows[1]["itl_us"] == rows[1]["mono_us"] - rows[0]["mono_us"] >= 20_000

    begin, end = collector.requests
    assert {row["request"] for row in rows} == {begin["number"]} == {end["number"]}
    assert (begin["id"], begin["finish"], begin["end_mono_us"]) == (ID, None, None)
    expected = {
        "source": "asgi",
        "id": ID,
        "route": "/v1/completions",
        "status": 200,
        "finish": "length",
        "aborted": False,
        "prompt_tokens": 400,
        "output_tokens": 3,
        "cached_tokens": 256,
        "chunks": 5,
        "ttft_us": rows[0]["mono_us"] - end["arrival_mono_us"],
        "e2e_us": end["end_mono_us"] - end["arrival_mono_us"],
    }
    assert {name: end[name] for name in expected} == expected
    assert collector.datagrams[0].header["port"] == 8_123


def test_messages_go_through_as_they_are() -> None:
    messages = [start(), body(token()), body(DONE), body(b"", more=False)]
    seen: list[Any] = []

    async def app(given: Any, receive: Any, send: Any) -> None:
        seen.append((given, await receive()))
        for message in messages:
            await send(message)

    request = scope()
    with tapped_to_collector():
        client = serve(app, request, Client({"type": "http.request", "body": b"x"}))
    assert seen == [(request, {"type": "http.request", "body": b"x"})]
    assert request == scope()  # no header is added: it would change the request's id
    assert len(client.sent) == len(messages)
    assert all(sent is message for sent, message in zip(client.sent, messages))


@pytest.mark.parametrize(
    "request_scope",
    [
        {"type": "lifespan"},
        {"type": "websocket", "path": "/v1/realtime"},
        scope(method="GET"),
        {"type": "http"},
        {},
        None,
    ],
    ids=["lifespan", "websocket", "GET", "no method", "empty", "no dict"],
)
def test_other_scopes_are_left_alone(request_scope: Any) -> None:
    seen: list[Any] = []

    async def app(*given: Any) -> None:
        seen.extend(given)
        await asyncio.sleep(0)

    client = Client()
    with tapped_to_collector() as (tap, collector):
        asyncio.run(TokenTap(app)(request_scope, client.receive, client.send))
        tap.close()
        collector.read()
    assert seen == [request_scope, client.receive, client.send]
    assert collector.raw == []


def test_an_answer_in_one_piece_is_a_request_without_gaps() -> None:
    answer = compact(
        {
            **head("chat.completion", "chatcmpl-9"),
            "choices": [
                {"message": {"content": WRITTEN * 100}, "finish_reason": "stop"},
            ],
            "usage": {"prompt_tokens": 12, "total_tokens": 32, "completion_tokens": 20},
            "metrics": None,
        }
    )
    collector = _follow(answering(answer), scope("/v1/chat/completions"))
    assert collector.rows(GAPS) == []
    (end,) = collector.requests
    assert (end["id"], end["finish"]) == ("chatcmpl-9", "stop")
    assert (end["prompt_tokens"], end["output_tokens"]) == (12, 20)
    assert (end["chunks"], end["ttft_us"]) == (None, None)


def test_an_error_says_its_status_and_nothing_of_what_it_quotes() -> None:
    quoted = compact({"error": {"message": "no"}, "id": WRITTEN, "finish_reason": "stop"})
    (end,) = _follow(answering(quoted, status=400)).requests
    assert (end["status"], end["finish"], end["aborted"], end["id"]) == (400, "error", False, None)


def test_other_posts_are_followed_only_when_they_stream_events() -> None:
    assert _follow(answering(b"{}"), scope("/tokenize")).raw == []
    collector = _follow(streaming([token()]), scope("/somebody/elses/route"))
    assert len(collector.rows(GAPS)) == 1


def test_a_client_that_goes_away_is_noticed() -> None:
    async def app(_: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(token()))
        await receive()  # Starlette listens for this beside the stream, then stops it

    (_, end) = _follow(app, client=Client({"type": "http.disconnect"})).requests
    assert (end["finish"], end["aborted"], end["chunks"]) == ("abort", True, 1)


def test_a_disconnect_after_the_last_message_is_no_abort() -> None:
    async def app(_: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(token(finish="stop"), more=False))
        await receive()

    (_, end) = _follow(app, client=Client({"type": "http.disconnect"})).requests
    assert (end["finish"], end["aborted"]) == ("stop", False)


@pytest.mark.parametrize(
    ("error", "has_begun", "expected"),
    [
        (ValueError("app"), False, (500, "error", False)),
        (ValueError("app"), True, (200, "abort", True)),
        (asyncio.CancelledError(), False, (None, "abort", True)),
        (asyncio.CancelledError(), True, (200, "abort", True)),
        (KeyboardInterrupt(), True, (200, "abort", True)),
    ],
    ids=["error before", "error within", "cancelled before", "cancelled within", "signal"],
)
def test_what_the_app_raises_comes_out_as_it_is(
    *, error: BaseException, has_begun: bool, expected: tuple[Any, ...]
) -> None:
    async def app(_: Any, __: Any, send: Any) -> None:
        if has_begun:
            await send(start())
        raise error

    async def run(client: Client) -> BaseException:
        try:
            await TokenTap(app)(scope(), client.receive, client.send)
        except BaseException as raised:  # noqa: BLE001 - it is what the test looks at
            return raised
        raise AssertionError("nothing was raised")

    with tapped_to_collector() as (tap, collector):
        raised = asyncio.run(run(Client()))
        tap.close()
        collector.read()
        (end,) = collector.requests
    assert raised is error
    assert (end["status"], end["finish"], end["aborted"]) == expected


def test_what_send_raises_reaches_the_app_and_is_an_abort() -> None:
    class Gone(Client):
        async def send(self, message: Any) -> None:
            if message.get("body"):
                raise OSError("client gone")

    with tapped_to_collector() as (tap, collector):
        with pytest.raises(OSError, match="client gone"):
            serve(streaming([token(), token()]), client=Gone())
        tap.close()
        collector.read()
        end = collector.requests[-1]
    assert (end["aborted"], end["chunks"]) == (True, 1)


@pytest.mark.parametrize(
    "odd",
    [
        {},
        None,
        {"type": "http.response.body"},
        {"type": "http.response.body", "body": 7, "more_body": True},
        {"type": "http.response.body", "body": bytearray(b"data: x\n\n"), "more_body": True},
        {"type": "http.response.start", "status": None, "headers": None},
        {"type": "http.response.start", "status": 200, "headers": [(1, 2)]},
        {"type": "http.response.pathsend", "path": "/x"},
        {"type": "http.response.trailers"},
    ],
    ids=str,
)
def test_odd_messages_go_through_too(odd: Any) -> None:
    async def app(_: Any, __: Any, send: Any) -> None:
        await send(start())
        await send(odd)
        await send(body(token(), more=False))

    class Plain(Client):
        async def send(self, message: Any) -> None:
            self.sent.append(message)

    with tapped_to_collector():
        assert serve(app, client=Plain()).sent[1] is odd


def test_several_choices_do_not_shorten_the_pauses() -> None:
    """With n > 1 the choices of one step come side by side: only the first one is followed."""
    chunks = [token(index=0), token(index=1), token(index=0), token(index=1)]
    rows = _follow(streaming(chunks)).rows(GAPS)
    assert [row["itl_us"] is None for row in rows] == [True, True, False, True]
    assert rows[2]["itl_us"] == rows[2]["mono_us"] - rows[0]["mono_us"]


def test_the_opening_chunk_of_a_chat_is_no_token() -> None:
    def chat(delta: dict[str, Any]) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        return event({**head("chat.completion.chunk"), "choices": [choice]})

    opening = chat({"role": "assistant", "content": ""})
    chunks = [opening, chat({"content": WRITTEN}), chat({"content": ""})]
    rows = _follow(streaming(chunks), scope("/v1/chat/completions")).rows(GAPS)
    assert [row["tokens"] for row in rows] == [0, None, None]
    assert [row["itl_us"] is None for row in rows] == [True, True, False]


def test_tokens_are_counted_where_every_chunk_has_usage() -> None:
    def counted(output: int) -> bytes:
        counts = {"prompt_tokens": 9, "total_tokens": 9 + output, "completion_tokens": output}
        return token(usage=counts)

    chunks = [counted(1), counted(4), counted(4), usage(9, 4, None)]
    collector = _follow(streaming(chunks))
    assert [row["tokens"] for row in collector.rows(GAPS)] == [1, 3, 1, 0]
    assert collector.ended[0]["output_tokens"] == 4
    assert collector.ended[0]["cached_tokens"] is None


def test_the_responses_and_messages_routes_are_understood() -> None:
    response = {"id": "resp_5", "object": "response"}
    counts = {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}
    chunks = [
        event({"response": response, "type": "response.created"}, "response.created"),
        event({"delta": WRITTEN, "item_id": "msg_1"}, "response.output_text.delta"),
        event({"delta": WRITTEN, "item_id": "msg_1"}, "response.output_text.delta"),
        event({"response": {**response, "usage": counts}}, "response.completed"),
    ]
    collector = _follow(streaming(chunks), scope("/v1/responses"))
    assert [row["tokens"] for row in collector.rows(GAPS)] == [0, None, None, 0]
    end = collector.ended[0]
    assert (end["id"], end["finish"], end["output_tokens"]) == ("resp_5", "stop", 2)

    ended = {"delta": {"stop_reason": "max_tokens"}, "usage": {"input_tokens": 8}}
    chunks = [
        event({"type": "message_start", "message": {"id": "chatcmpl-6"}}, "message_start"),
        event({"delta": {"text": WRITTEN}}, "content_block_delta"),
        event({"type": "message_delta", **ended}, "message_delta"),
    ]
    collector = _follow(streaming(chunks), scope("/v1/messages"))
    assert [row["tokens"] for row in collector.rows(GAPS)] == [0, None, 0]
    end = collector.ended[0]
    assert (end["id"], end["finish"], end["prompt_tokens"]) == ("chatcmpl-6", "length", 8)


def test_text_of_the_model_is_not_taken_for_facts() -> None:
    forged = (
        '","id":"forged","finish_reason":"stop","usage":{"prompt_tokens":1,'
        '"completion_tokens":999},"choices":[]'
    )
    collector = _follow(streaming([token(forged), token(forged, finish="length"), usage()]))
    assert [row["tokens"] for row in collector.rows(GAPS)] == [None, None, 0]
    end = collector.ended[0]
    assert (end["id"], end["finish"], end["output_tokens"]) == (ID, "length", 3)


def test_a_stop_text_is_not_told() -> None:
    """In the field stop_reason stands the text at which the client asked to stop."""
    choice = {"index": 0, "text": "", "finish_reason": "stop", "stop_reason": WRITTEN}
    last = event({**head("text_completion"), "choices": [choice]})
    assert _follow(streaming([token(), last])).ended[0]["finish"] == "stop"


def test_a_finish_that_is_no_known_word_is_not_told() -> None:
    assert _follow(streaming([token(finish="zebra")])).ended[0]["finish"] is None
