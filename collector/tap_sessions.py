"""The lives of taps: which process each is in, and what it sent that never came."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from collector.tap_clock import TapClock
from collector.tap_header import TapHeader
from collector.tap_wire import Kind
from stallscope.clock import Instant
from stallscope.units import US_PER_SECOND

LIVE_US = 10 * US_PER_SECOND
"""A tap that has sent within this time counts as live: an idle engine has nothing to tell."""

_LOG = logging.getLogger("stallscope.collect")
_MOST_SESSIONS = 64
_MOST_TOLD = 256  # of the log: a stranger may begin any number of sessions

SessionKey = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Loss:
    """What is known to be lost between two datagrams of a session.

    Attributes:
        datagrams: Datagrams that were made and never came.
        records: Records that the tap dropped before a datagram was made of them.
    """

    datagrams: int = 0
    records: int = 0


@dataclass(slots=True)
class TapSession:
    """One life of a tap.

    Attributes:
        key: Process id as the kernel says (0 when it cannot be seen from here) and session.
        first_mono_us: When it was heard of first, on our clock.
        port: Where its server answers; None until it was told.
        model: Served model name; None until it was told.
        engine_version: Version of the engine; None until it was told.
        clock: Its clocks against ours.
        engines: Indices of the engines it has told of.
        seen_us: When each kind was heard last.
    """

    key: SessionKey
    first_mono_us: int
    port: int | None = None
    model: str | None = None
    engine_version: str | None = None
    clock: TapClock = field(default_factory=TapClock)
    engines: set[int] = field(default_factory=set)
    seen_us: dict[Kind, int] = field(default_factory=dict)
    _next: dict[Kind, int] = field(default_factory=dict)
    _dropped: int | None = None

    @property
    def pid(self) -> int:
        """Process id as the kernel says; 0 when it cannot be seen from here."""
        return self.key[0]

    def learn(self, header: TapHeader, kind: Kind, received: Instant) -> None:
        """Take note of what a datagram says of its sender."""
        self.port = header.port or self.port
        self.model = header.model or self.model
        self.engine_version = header.engine_version or self.engine_version
        self.clock.follow(header.wall_us, header.mono_us, received)
        self.seen_us[kind] = received.mono_us

    def count(self, header: TapHeader, kind: Kind) -> Loss:
        """Return what was lost before a datagram; each is counted once."""
        expected = self._next.get(kind, header.sequence)
        self._next[kind] = max(expected, header.sequence + 1)
        return Loss(max(0, header.sequence - expected), self._newly_dropped(header.dropped))

    def _newly_dropped(self, dropped: int) -> int:
        """Return how many records the tap dropped since we heard of it before."""
        before = dropped if self._dropped is None else self._dropped
        self._dropped = max(before, dropped)
        return self._dropped - before


class TapSessions:
    """All taps that were heard of, the longest silent ones forgotten; safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[SessionKey, TapSession] = OrderedDict()
        self._told = 0

    def follow(
        self, header: TapHeader, kind: Kind, pid: int, received: Instant, *, counts: bool
    ) -> tuple[TapSession, Loss]:
        """Return the session of a datagram and what was lost before it.

        Args:
            header: Of the datagram.
            kind: Of the datagram.
            pid: Who sent it, as the kernel says: nobody speaks for another's session.
            received: When it was here.
            counts: Whether this is the only look at this datagram, or the one that counts.
        """
        key = (pid, header.session)
        with self._lock:
            session = self._sessions.get(key)
            is_new = session is None
            if session is None:
                session = self._sessions[key] = TapSession(key, received.mono_us)
                while len(self._sessions) > _MOST_SESSIONS:
                    self._sessions.popitem(last=False)
            self._sessions.move_to_end(key)
            session.learn(header, kind, received)
            if is_new:
                self._tell(session, header)
            return session, session.count(header, kind) if counts else Loss()

    def live(self, kind: Kind, now_us: int) -> list[TapSession]:
        """Return the sessions that have sent this kind within the last ten seconds."""
        with self._lock:
            return [
                session
                for session in self._sessions.values()
                if now_us - session.seen_us.get(kind, -LIVE_US) < LIVE_US
            ]

    def _tell(self, session: TapSession, header: TapHeader) -> None:
        """Log a new tap and how its clocks stand against ours."""
        self._told += 1
        if self._told <= _MOST_TOLD:
            _LOG.info(
                "found tap %s of process %d, port %s: its wall clock is %d us from ours",
                *(header.tap, session.pid, session.port, session.clock.drift_us),
            )

    @property
    def are_known(self) -> bool:
        """Whether any tap was ever heard."""
        return bool(self._sessions)
