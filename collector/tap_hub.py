"""What the sources that read taps share: who sends, which engine that is, which request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.edges.tap_socket import TapSocket
from collector.known_engine import KnownEngine, no_engines
from collector.source import Machine
from collector.tap_clock import wall_offset_us
from collector.tap_engines import TapEngines
from collector.tap_inbox import TapInbox
from collector.tap_receiver import TapReceiver
from collector.tap_requests import NoteRequest, TapRequests, forget_request
from collector.tap_sessions import TapSessions
from collector.tap_wire import MOST_BYTES, Kind
from stallscope.clock import Clock, Instant


@dataclass(frozen=True, slots=True)
class Taps:
    """The taps of this host, for all sources of one run.

    Attributes:
        clock: Both clocks.
        receiver: Receives.
        inbox: What was received.
        engines: Finds engines.
        requests: Gives requests their ids.
        sessions: The taps that were heard.
    """

    clock: Clock
    receiver: TapReceiver
    inbox: TapInbox
    engines: TapEngines
    requests: TapRequests
    sessions: TapSessions

    def now(self) -> Instant:
        """Return the present, both clocks of one moment."""
        mono_us = self.clock.now().mono_us
        return Instant(mono_us + wall_offset_us(self.clock), mono_us)

    def engines_told_of(self) -> frozenset[int]:
        """Return the engines whose steps are told right now. Safe from any thread.

        Their metrics pages tell little more: they can be read less often.
        """
        now_us = self.clock.now().mono_us
        return self.engines.settled(self.sessions.live(Kind.STEPS, now_us), now_us)


@dataclass(frozen=True, slots=True)
class TapOptions:
    """How taps are read.

    Attributes:
        socket: Where they deliver; None when they are not wanted.
        group: Group that may deliver; None leaves the socket at our own.
        store_request_ids: Whether the engine's request ids are stored instead of their hashes.
        looks_only: One reading only: whether taps could be heard is found out, nothing is received.
    """

    socket: Path | None
    group: str | None = None
    store_request_ids: bool = False
    looks_only: bool = False


def build_taps(
    machine: Machine,
    options: TapOptions,
    engines: Callable[[], Sequence[KnownEngine]] = no_engines,
    note_request: NoteRequest = forget_request,
) -> Taps:
    """Return what sources that read taps share; nothing is touched yet.

    Args:
        machine: Clock, host name and ids.
        options: How taps are read.
        engines: Returns the engines whose metrics pages are read.
        note_request: Told of each request whose engine's id becomes known.
    """
    inbox = TapInbox()
    tap_socket = (
        None if options.socket is None else TapSocket(options.socket, options.group, MOST_BYTES)
    )
    store_ids = options.store_request_ids
    return Taps(
        clock=machine.clock,
        receiver=TapReceiver(
            tap_socket, inbox, machine.clock, str(options.socket), looks_only=options.looks_only
        ),
        inbox=inbox,
        engines=TapEngines(machine, engines),
        requests=TapRequests(machine.names, store_ids=store_ids, note_request=note_request),
        sessions=TapSessions(),
    )
