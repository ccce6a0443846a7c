"""The middleware: stamps each chunk of an answer as it is sent. Pure ASGI, bodies untouched.

``vllm serve ... --middleware stallscope_vllm.TokenTap``. It adds nothing to the request either: a
header X-Request-Id would win over the ``request_id`` of the body (vllm ``_base_request_id``), so
the engine's id is read from the answer, where it stands first.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Any, Callable

from stallscope_vllm.exchange import Exchange
from stallscope_vllm.tap import Tap, shared_tap

Message = Any
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]

_GENERATION = ("/completions", "/responses", "/messages", "/generate")
_MOST_ROUTE = 128


class TokenTap:
    """Wraps an ASGI app.

    Requests to paths of generation are followed, and any other POST whose answer turns out to be a
    stream of events. Everything else goes through as if nobody were here.

    Args:
        app: The app inside.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._tap = shared_tap()
        self._tap.start()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Run the app, its messages stamped."""
        watch = self._watch(scope)
        if watch is None:
            await self._app(scope, receive, send)
            return
        try:
            await self._app(scope, watch.wrap_receive(receive), watch.wrap_send(send))
        except BaseException as error:
            watch.fail(error)
            raise
        finally:
            watch.finish()

    def _watch(self, scope: Any) -> _Watch | None:
        """Return what follows the request, or None for one that is none of ours."""
        try:
            is_ours = scope["type"] == "http" and scope["method"] == "POST"
            if not is_ours or not self._tap.queues.is_accepting:
                return None
            return _Watch(self._tap, scope)
        except Exception:  # noqa: BLE001 - a scope of a kind we do not know
            self._tap.note_error()
            return None


class _Watch:
    """Follows one request."""

    def __init__(self, tap: Tap, scope: Any) -> None:
        path = scope["path"]
        self._tap = tap
        self._queues = tap.queues
        self._is_wanted = path.endswith(_GENERATION)
        self._is_announced = False
        self._is_over = False
        self._exchange = Exchange(
            tap.next_number(), path[:_MOST_ROUTE], time.time_ns(), time.monotonic_ns()
        )
        server = scope.get("server")
        if server and type(server[1]) is int:
            tap.learn(port=server[1])

    def wrap_receive(self, receive: Receive) -> Receive:
        """Return a receive that notices when the client goes away."""

        async def receive_and_notice() -> Message:
            message = await receive()
            self._notice(message)
            return message

        return receive_and_notice

    def wrap_send(self, send: Send) -> Send:
        """Return a send that stamps; it hands out the inner awaitable, with no frame between."""
        tap = self._tap
        stamp = self._stamp
        clock = time.monotonic_ns

        def stamp_and_send(message: Message) -> Awaitable[None]:
            begin_ns = clock()
            try:
                stamp(message, begin_ns)
            except (KeyboardInterrupt, SystemExit):
                raise  # a signal to the process that arrived just here
            except BaseException:  # noqa: BLE001 - a message of a kind we do not know
                tap.note_error()
            tap.send_cost.add(clock() - begin_ns)
            return send(message)

        return stamp_and_send

    def fail(self, error: BaseException) -> None:
        """Note that the app raised: an error, or the end of a task whose client went away."""
        exchange = self._exchange
        if not isinstance(error, Exception):
            exchange.is_aborted = True
        elif exchange.status is None:
            exchange.status = 500  # what the server outside answers now

    def finish(self) -> None:
        """Close a request that did not come to its last message."""
        try:
            if not self._is_over:
                self._exchange.is_aborted |= self._exchange.status in {None, 200}
                self._end(time.monotonic_ns())
        except Exception:  # noqa: BLE001 - the app's own outcome stands
            self._tap.note_error()

    def _notice(self, message: Message) -> None:
        try:
            if message["type"] == "http.disconnect" and not self._is_over:
                self._exchange.is_aborted = True
        except Exception:  # noqa: BLE001 - a message of a kind we do not know
            self._tap.note_error()

    def _stamp(self, message: Message, now_ns: int) -> None:
        kind = message["type"]
        if kind == "http.response.body":
            if self._is_wanted:
                self._stamp_body(message, now_ns)
        elif kind == "http.response.start":
            self._begin_answer(message)

    def _begin_answer(self, message: Message) -> None:
        exchange = self._exchange
        exchange.status = message["status"]
        for name, value in message.get("headers", ()):
            if name.lower() == b"content-type" and value.startswith(b"text/event-stream"):
                exchange.is_streamed = True
                self._is_wanted = True

    def _stamp_body(self, message: Message, now_ns: int) -> None:
        body = message.get("body")
        exchange = self._exchange
        if body and exchange.is_streamed:
            row = exchange.stamp(body, now_ns)
            if not self._is_announced and exchange.id is not None:
                self._is_announced = True
                self._queues.begin(exchange)
            self._queues.offer_chunk(row)
        elif body:
            exchange.read_answer(body)
        if not message.get("more_body"):
            self._end(now_ns)

    def _end(self, now_ns: int) -> None:
        self._is_over = True
        if self._is_wanted:
            self._exchange.end(now_ns)
            self._queues.end(self._exchange)
