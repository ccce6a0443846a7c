"""One GET of a metrics page: bounded in time and size, never led to another host.

The time limit covers everything from connecting to the last byte, however slowly bytes drip: each
receive is given only what is left of it. Only looking up a host name is outside of it (getaddrinfo
has no time limit); loopback addresses need none.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
import zlib
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urljoin, urlsplit

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

from collector.source import State
from stallscope.units import US_PER_SECOND

ACCEPT = "text/plain;version=0.0.4, */*;q=0.1"
"""Not OpenMetrics: prometheus-client 0.23 to 0.26 would rename series (client_python#1177)."""

_METRICS_TYPES = {"", "text/plain", "application/openmetrics-text"}
_MOST_REDIRECTS = 3
_GZIP = 31  # zlib: a gzip header and the largest window
_OK = 200
_REDIRECTS = {301, 302, 303, 307, 308}
_STATES = {401: State.RESTRICTED, 403: State.RESTRICTED, 404: State.NOT_FOUND}


class ScrapeError(Exception):
    """No page came back.

    Args:
        state: What that means for the target.
        reason: What happened, for people; names no address.
        refused: Nothing listens there, so nothing was running there.
    """

    def __init__(self, state: State, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Scrape:
    """A page as it came.

    Attributes:
        body: Decompressed.
        content_type: As sent; empty when nothing was sent.
        cut: The body is shorter than announced, or longer than is read.
    """

    body: bytes
    content_type: str
    cut: bool


def fetch(url: str, deadline_us: int, most_bytes: int = 8 * 1024 * 1024) -> Scrape:
    """Return the page at a URL.

    Args:
        url: ``http`` or ``https``; without a path, ``/metrics`` is asked for.
        deadline_us: For everything, connecting included.
        most_bytes: A longer body is cut there.

    Raises:
        ScrapeError: Nobody listens, time ran out, the status is not 200, or it is no metrics page.
    """
    give_up = time.monotonic() + deadline_us / US_PER_SECOND
    parts = _split(url)
    try:
        for _ in range(_MOST_REDIRECTS + 1):
            with closing(_connect(parts, give_up)) as sock:
                response = _ask(parts, sock, give_up)
                if response.status == _OK:
                    return _read_page(response, most_bytes)
                parts = _follow(parts, response)
    except TimeoutError as error:
        raise ScrapeError(
            State.HUNG, f"no answer within {deadline_us / US_PER_SECOND:g} s"
        ) from error
    except (OSError, UnicodeError) as error:
        raise _explain(error) from error
    except http.client.HTTPException as error:
        raise ScrapeError(State.FAILED, f"answer is not HTTP: {_say(error)}") from error
    raise ScrapeError(State.FAILED, f"more than {_MOST_REDIRECTS} redirects")


class _TimedReader(io.RawIOBase):
    """Receives from a socket until a point in time."""

    def __init__(self, sock: socket.socket, give_up: float) -> None:
        super().__init__()
        self._sock = sock
        self._give_up = give_up

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        self._sock.settimeout(_left(self._give_up))
        return self._sock.recv_into(buffer)


class _TimedSocket:
    """What http.client needs of a socket, with one time limit for all of it together."""

    def __init__(self, sock: socket.socket, give_up: float) -> None:
        self._sock = sock
        self._give_up = give_up

    def sendall(self, data: bytes) -> None:
        """Send the request."""
        self._sock.settimeout(_left(self._give_up))
        self._sock.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a reader for the answer."""
        return io.BufferedReader(_TimedReader(self._sock, self._give_up))

    def close(self) -> None:
        """Leave the socket open: whoever connected closes it."""


def _left(give_up: float) -> float:
    left = give_up - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ScrapeError(State.FAILED, f"not an address: {error}") from error
    if parts.scheme not in {"http", "https"} or not host:
        raise ScrapeError(State.FAILED, "not an address: http://host:port is needed")
    return parts if parts.path not in {"", "/"} else parts._replace(path="/metrics")


def _connect(parts: SplitResult, give_up: float) -> socket.socket:
    port = parts.port or (443 if parts.scheme == "https" else 80)
    sock = socket.create_connection((parts.hostname or "", port), timeout=_left(give_up))
    if parts.scheme == "http":
        return sock
    try:
        return ssl.create_default_context().wrap_socket(sock, server_hostname=parts.hostname)
    except OSError:
        sock.close()
        raise


def _ask(parts: SplitResult, sock: socket.socket, give_up: float) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    connection.sock = _TimedSocket(sock, give_up)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    headers = {"Accept": ACCEPT, "Connection": "close", "User-Agent": "stallscope"}
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def _follow(parts: SplitResult, response: http.client.HTTPResponse) -> SplitResult:
    """Return where a redirect leads, if it stays on the host; older vLLM sends /metrics/ there.

    Raises:
        ScrapeError: The status is no redirect, or it leads to another host.
    """
    place = response.getheader("Location", "")
    if response.status not in _REDIRECTS or not place:
        state = _STATES.get(response.status, State.FAILED)
        raise ScrapeError(state, f"HTTP {response.status} {response.reason}".rstrip())
    target = _split(urljoin(parts.geturl(), place))
    if (target.scheme, target.netloc) != (parts.scheme, parts.netloc):
        raise ScrapeError(State.FAILED, f"redirects to {target.netloc}, which is not followed")
    return target


def _read_page(response: http.client.HTTPResponse, most_bytes: int) -> Scrape:
    content_type = response.getheader("Content-Type", "") or ""
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in _METRICS_TYPES:
        raise ScrapeError(State.NOT_FOUND, f"answers with {kind}, not with metrics")
    try:
        body = response.read(most_bytes + 1)
        # read(n) returns what came before a connection broke, without an error
        cut = len(body) > most_bytes or bool(response.length)
    except http.client.IncompleteRead as error:
        body, cut = error.partial, True
    encoding = (response.getheader("Content-Encoding", "") or "").lower()
    if encoding in {"", "identity"}:
        return Scrape(body[:most_bytes], content_type, cut)
    if encoding != "gzip":
        raise ScrapeError(State.UNSUPPORTED, f"body is encoded as {encoding}, which was not asked")
    return _unpack(body, content_type, most_bytes, cut=cut)


def _unpack(body: bytes, content_type: str, most_bytes: int, *, cut: bool) -> Scrape:
    """Return a page that a server compressed unasked; it may not grow past the limit."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        text = unpacker.decompress(body, most_bytes)
    except zlib.error as error:
        raise ScrapeError(State.FAILED, f"body is not gzip: {error}") from error
    return Scrape(text, content_type, cut or not unpacker.eof)


def _explain(error: OSError | UnicodeError) -> ScrapeError:
    if isinstance(error, ConnectionRefusedError):
        reason = "connection refused: nothing listens there"
        return ScrapeError(State.NOT_FOUND, reason, refused=True)
    if isinstance(error, socket.gaierror):
        return ScrapeError(State.NOT_FOUND, f"host name not found: {error.strerror}")
    return ScrapeError(State.FAILED, f"connection failed: {_say(error)}")


def _say(error: Exception) -> str:
    text = str(error).partition("\n")[0][:200]
    return text or type(error).__name__
