"""A small HTTP listener for loopback: a few fixed paths, GET only, bounded in every direction."""

from __future__ import annotations

import hmac
import logging
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_LOG = logging.getLogger("stallscope.http")
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a path answers.

    Attributes:
        status: HTTP status.
        body: Body as sent.
        content_type: Its media type.
    """

    status: HTTPStatus
    body: bytes
    content_type: str = _PLAIN

    @classmethod
    def text(cls, status: HTTPStatus, line: str) -> Reply:
        """Return a reply of one line of text."""
        return cls(status, f"{line}\n".encode())


Route = Callable[[str], Reply]
"""Answers a GET; the argument is the Accept header, empty when there is none."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may read.

    Attributes:
        token: With a token, every request must carry it as a bearer token and any Host will do.
            Without one, only loopback names are taken as Host, so that a web page elsewhere
            cannot read us through the browser of somebody on this machine (DNS rebinding).
    """

    token: str | None = None

    def refuse(self, host: str | None, authorization: str | None) -> Reply | None:
        """Return why a request is refused, or None when it may pass.

        Args:
            host: Host header.
            authorization: Authorization header.
        """
        if self.token is not None:
            given = (authorization or "").encode()
            if hmac.compare_digest(given, f"Bearer {self.token}".encode()):
                return None
            return Reply.text(HTTPStatus.UNAUTHORIZED, "a bearer token is needed")
        if host_name(host or "") in _LOOPBACK_NAMES:
            return None
        line = "the Host header must name localhost, 127.0.0.1 or [::1]; other names need a token"
        return Reply.text(HTTPStatus.FORBIDDEN, line)


def host_name(header: str) -> str:
    """Return the name in a Host header without its port, lower case; empty when it has none."""
    try:
        return (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:  # an unclosed bracket
        return ""


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
        self._send(self._answer(), with_body=True)

    def do_HEAD(self) -> None:
        self._send(self._answer(), with_body=False)

    def _answer(self) -> Reply:
        refusal = self.server.access.refuse(
            self.headers.get("Host"), self.headers.get("Authorization")
        )
        if refusal is not None:
            return refusal
        path = self.path.partition("?")[0]
        if path not in self.server.routes:
            known = " ".join(sorted(self.server.routes))
            return Reply.text(HTTPStatus.NOT_FOUND, f"no such path; there are: {known}")
        return self.server.ask(path, self.headers.get("Accept") or "")

    def _send(self, reply: Reply, *, with_body: bool) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Cache-Control", "no-store")
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
        routes: Mapping[str, Route],
        access: Access,
        limits: Limits,
    ) -> None:
        self.routes = routes
        self.access = access
        self.limits = limits
        self._free = threading.BoundedSemaphore(limits.at_once)
        self._broken: set[str] = set()
        super().__init__(address, _Handler)

    def ask(self, path: str, accept: str) -> Reply:
        """Return what a path answers; an error of ours is a 500, told in the log once."""
        try:
            reply = self.routes[path](accept)
        except Exception as error:  # noqa: BLE001 - the listener outlives whatever it shows
            if path not in self._broken:
                _LOG.error("%s cannot be shown: %s: %s", path, type(error).__name__, error)
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
        routes: What each path answers.
        access: Who may read.
        limits: What a peer may take.

    Raises:
        OSError: The address cannot be bound, usually because the port is taken.
    """

    def __init__(
        self,
        address: tuple[str, int],
        routes: Mapping[str, Route],
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
