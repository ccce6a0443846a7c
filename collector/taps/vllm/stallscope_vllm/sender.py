"""A datagram socket that never waits: it sends at once or says why not."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

SENT, BUSY, GONE, TOO_LONG = "sent", "busy", "gone", "too long"

_BUSY = {errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS, errno.EINTR}


class Sender:
    """One Unix datagram socket, connected to the first path where somebody listens.

    Connected, because that notices a collector that was restarted at the same path: the first send
    to its old socket fails.

    Args:
        paths: Tried in this order.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._socket: socket.socket | None = None

    @property
    def is_connected(self) -> bool:
        """Whether somebody listened when last tried."""
        return self._socket is not None

    def connect(self) -> bool:
        """Look for a listener once; return whether there is one."""
        self.close()
        for path in self._paths:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                made.connect(path)
            except (OSError, ValueError):  # ValueError: a path with a zero byte
                made.close()
            else:
                self._socket = made
                return True
        return False

    def send(self, datagram: bytes) -> str:
        """Send without waiting; return SENT, BUSY, GONE or TOO_LONG."""
        if self._socket is None:
            return GONE
        try:
            self._socket.send(datagram, socket.MSG_DONTWAIT)
        except OSError as error:
            return self._explain(error)
        return SENT

    def close(self) -> None:
        """Let go of the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _explain(self, error: OSError) -> str:
        if error.errno in _BUSY:
            return BUSY
        if error.errno == errno.EMSGSIZE:
            return TOO_LONG
        self.close()
        return GONE
