"""The thread at the taps' socket: it only receives, since the kernel's queue holds ten datagrams.

The sources that read what came share one receiver. Where it cannot listen it says why, and tries
again every few seconds.
"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from collector.edges.tap_socket import Datagram, TapSocketError
from collector.source import NoData, State
from collector.tap_inbox import Arrival, TapInbox
from stallscope.clock import Clock
from stallscope.units import US_PER_SECOND

_LOG = logging.getLogger("stallscope.collect")
_AGAIN_US = 5 * US_PER_SECOND
_LEAVE_S = 2.0


class Listening(Protocol):
    """What is needed of a socket; `TapSocket` is one."""

    @property
    def note(self) -> str:
        """What could not be done as wished."""

    def bind(self) -> None:
        """Listen."""

    def check(self) -> None:
        """Find out whether one could listen."""

    def receive(self) -> Datagram | None:
        """Wait for a datagram; None once shut."""

    def is_in_place(self) -> bool:
        """Return whether senders still find it."""

    def shut(self) -> None:
        """Stop listening."""

    def close(self) -> None:
        """Give the descriptor back."""


class TapReceiver:
    """Receives for all sources of this process that read taps.

    Args:
        tap_socket: Where taps deliver; None when they are not wanted.
        inbox: Takes what comes.
        clock: Stamps it, and paces tries.
        where: The path, for people.
        looks_only: Only find out whether one could listen.
    """

    def __init__(
        self,
        tap_socket: Listening | None,
        inbox: TapInbox,
        clock: Clock,
        where: str,
        *,
        looks_only: bool = False,
    ) -> None:
        self._socket = tap_socket
        self._inbox = inbox
        self._clock = clock
        self._looks_only = looks_only
        self.where = where
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._trouble: NoData | None = None
        self._look_us = 0
        self._users = 0

    @property
    def note(self) -> str:
        """What could not be done as wished, though taps are heard; empty when all could."""
        return "" if self._socket is None else self._socket.note

    def join(self) -> None:
        """Note one more user, who calls `leave` in the end."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """Note that a user needs it no more; the last one closes the socket."""
        with self._lock:
            self._users -= 1
            if self._users <= 0:
                self._stop()

    def listen(self) -> NoData | None:
        """Listen, if that is not so already; return why not where it cannot be done."""
        if self._socket is None:
            return NoData(State.DISABLED, "taps.enabled is off: no socket is open")
        if self._looks_only:
            return self._look_only(self._socket)
        with self._lock:
            now_us = self._clock.now().mono_us
            if now_us >= self._look_us:
                self._look_us = now_us + _AGAIN_US
                self._look(self._socket)
            return self._trouble

    def _look_only(self, tap_socket: Listening) -> NoData:
        """Return what listening would come to, taking nothing from a collector that runs."""
        try:
            tap_socket.check()
        except TapSocketError as error:
            if error.is_taken:
                reason = f"{error.reason}; what taps send is told by the collector that runs"
                return NoData(State.NOT_APPLICABLE, reason)
            return NoData(error.state, error.reason)
        return NoData(State.NOT_FOUND, f"nobody listens now; a collector would at {self.where}")

    def _look(self, tap_socket: Listening) -> None:
        """Open the socket, or open it anew when somebody took its place away."""
        if self._thread is not None and self._thread.is_alive() and tap_socket.is_in_place():
            return
        self._stop()
        try:
            tap_socket.bind()
        except TapSocketError as error:
            self._trouble = NoData(error.state, error.reason, rest_us=_AGAIN_US)
            return
        self._trouble = None
        self._thread = threading.Thread(
            target=self._receive, args=(tap_socket,), name="tap-receiver", daemon=True
        )
        self._thread.start()
        _LOG.info("taps are heard at %s", self.where)

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None or self._socket is None:
            return
        self._socket.shut()
        thread.join(_LEAVE_S)
        if not thread.is_alive():
            self._socket.close()

    def _receive(self, tap_socket: Listening) -> None:
        """Receive until the socket is shut; when the kernel refuses, it is opened anew later."""
        try:
            while (datagram := tap_socket.receive()) is not None:
                self._inbox.put(Arrival(datagram.data, datagram.pid, self._clock.now()))
        except OSError as error:
            _LOG.warning("taps: nothing can be received: %s", error.strerror)
