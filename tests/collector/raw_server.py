"""A server on loopback that answers with exactly the bytes a test gives it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class RawServer:
    """Answers each connection with the next script: bytes to send, numbers are pauses in seconds.

    The last script repeats. With ``hold`` the connection stays open after it until the end.
    """

    scripts: list[list[bytes | float]]
    hold: bool = False
    requests: list[bytes] = field(default_factory=list)
    _ends: threading.Event = field(default_factory=threading.Event)
    _socket: socket.socket = field(default_factory=socket.socket)

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    def url(self, path: str = "/metrics") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def start(self) -> None:
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self._ends.set()
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            self.requests.append(connection.recv(65_536))
            script = self.scripts[min(len(self.requests), len(self.scripts)) - 1]
            try:
                self._play(connection, script)
            except OSError:
                return
            if self.hold:
                self._ends.wait(10)

    def _play(self, connection: socket.socket, script: Iterable[bytes | float]) -> None:
        for step in script:
            if isinstance(step, bytes):
                connection.sendall(step)
            elif self._ends.wait(step):
                return


@contextmanager
def serving(*scripts: list[bytes | float], hold: bool = False) -> Iterator[RawServer]:
    """Run a server for the length of a test."""
    server = RawServer(list(scripts), hold)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def answer(
    body: bytes,
    *headers: str,
    status: str = "200 OK",
    content_type: str = "text/plain; version=0.0.4",
) -> bytes:
    """Return a whole HTTP answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    if content_type:
        lines.append(f"Content-Type: {content_type}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def free_port() -> int:
    """Return a port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def measure_s(begin: float) -> float:
    """Return seconds since a reading of time.monotonic()."""
    return time.monotonic() - begin
