"""A small HTTP listener for loopback: a few fixed paths, bounded in every direction."""

from __future__ import annotations

import logging
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from stallscope.exposition.access import JSON, LONGEST_BODY, Access, body_length, refuse_post
from stallscope.exposition.reply import Post, Reply, Route, Sent, Upload

_LOG = logging.getLogger("stallscope.http")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a peer may take.

    Attributes:
        silence_s: A peer that sends or takes nothing for so long is dropped.
        exchange_s: So is one that drips: a whole exchange never lasts longer.
        at_once: Connections at a time; more are closed unanswered.
    """

    silence_s: float = 5.0
    exchange_s: float = 15.0
    at_once: int = 16


class _Handler(BaseHTTPRequestHandler):
    """One request per connection: HTTP/1.0 leaves nothing open that could be held."""

    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.limits.silence_s)

    def do_GET(self) -> None:
        self._send(self._get(), with_body=True)

    def do_HEAD(self) -> None:
        self._send(self._get(), with_body=False)

    def do_POST(self) -> None:
        self._send(self._post(), with_body=True)

    def _get(self) -> Reply:
        route = self._route()
        if isinstance(route, Reply):
            return route
        if isinstance(route, Post | Upload):
            return Reply.wrong_method("POST")
        return self.server.ask(self._path, partial(route, self.headers.get("Accept") or ""))

    def _post(self) -> Reply:
        route = self._route()
        if isinstance(route, Reply):
            return route
        if isinstance(route, Upload):
            return self._upload(route)
        if not isinstance(route, Post):
            return Reply.wrong_method("GET, HEAD")
        body = self._body(JSON, LONGEST_BODY)
        if isinstance(body, Reply):
            return body
        return self.server.ask(self._path, partial(route.answer, body))

    def _upload(self, route: Upload) -> Reply:
        body = self._body(route.content_types, route.longest_body)
        if isinstance(body, Reply):
            return body
        encoding = (self.headers.get("Content-Encoding") or "").strip().lower()
        sent = Sent(body, self.headers.get_content_type(), encoding)
        return self.server.ask(self._path, partial(route.answer, sent))

    @property
    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _route(self) -> Route | Post | Upload | Reply:
        """Return what the path leads to, or why the request is refused."""
        refusal = self.server.access.refuse(
            self.headers.get("Host"), self.headers.get("Authorization")
        )
        if refusal is not None:
            return refusal
        if self._path in self.server.routes:
            return self.server.routes[self._path]
        known = " ".join(sorted(self.server.routes))
        return Reply.text(HTTPStatus.NOT_FOUND, f"no such path; there are: {known}")

    def _body(self, content_types: Sequence[str], longest: int) -> bytes | Reply:
        """Return the body, or why it is refused.

        It is read before anything in it is judged: a peer whose bytes are left lying may be told
        of a reset connection instead of the reason.
        """
        length = body_length(self.headers, longest)
        if isinstance(length, Reply):
            return length
        body = self.rfile.read(length)
        if len(body) < length:
            return Reply.text(HTTPStatus.BAD_REQUEST, "the body is shorter than its Content-Length")
        return refuse_post(self.headers, content_types) or body

    def _send(self, reply: Reply, *, with_body: bool) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Cache-Control", "no-store")
        if reply.allow:
            self.send_header("Allow", reply.allow)
        if reply.retry_after_s is not None:
            self.send_header("Retry-After", str(reply.retry_after_s))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if with_body:
            self.wfile.write(reply.body)

    def version_string(self) -> str:
        """Return who answers, without any version."""
        return "stallscope"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing: a scrape a second is no news."""


class _Server(ThreadingHTTPServer):
    """Threads per connection, but only so many, and none for ever."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # with the 5 of the base class a burst waits for the kernel's retries

    def __init__(
        self,
        address: tuple[str, int],
        routes: Mapping[str, Route | Post | Upload],
        access: Access,
        limits: Limits,
    ) -> None:
        self.routes = routes
        self.access = access
        self.limits = limits
        self._free = threading.BoundedSemaphore(limits.at_once)
        self._broken: set[str] = set()
        super().__init__(address, _Handler)

    def ask(self, path: str, answer: Callable[[], Reply]) -> Reply:
        """Return what a path answers; an error of ours is a 500, told in the log once."""
        try:
            reply = answer()
        except Exception as error:  # noqa: BLE001 - the listener outlives whatever it shows
            if path not in self._broken:
                _LOG.error("%s cannot be answered: %s: %s", path, type(error).__name__, error)
            self._broken.add(path)
            return Reply.text(HTTPStatus.INTERNAL_SERVER_ERROR, "see the log")
        self._broken.discard(path)
        return reply

    def server_bind(self) -> None:
        # HTTPServer would look up the name of the address, which may ask a name server.
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - base class
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started, so none will give its place back
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        limit = threading.Timer(self.limits.exchange_s, _hang_up, (request,))
        limit.daemon = True
        limit.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            limit.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Drop the connection: a peer that goes away in mid-reply is no news either."""


def _hang_up(connection: socket.socket) -> None:
    """End a connection that lasts too long; its thread then fails on the socket and ends."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


class Listener:
    """A running listener.

    Args:
        address: Host and port; port 0 takes a free one.
        routes: What each path answers; a path takes either GET or POST.
        access: Who may ask.
        limits: What a peer may take.

    Raises:
        OSError: The address cannot be bound, usually because the port is taken.
    """

    def __init__(
        self,
        address: tuple[str, int],
        routes: Mapping[str, Route | Post | Upload],
        access: Access,
        limits: Limits | None = None,
    ) -> None:
        self._server = _Server(address, routes, access, limits or Limits())
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening; requests in progress are not waited for."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
