"""Datagrams between the thread that receives them and the sources that read them.

Two lanes, one per source. Each is bounded in bytes: beyond that the newest are dropped and counted,
so that a flood or a source that is behind costs rows and never memory.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from collector.tap_wire import Kind, kind_of
from stallscope.clock import Instant

_MOST_BYTES = 16 << 20
_MOST_TAKEN = 2 << 20
_ROWS = re.compile(rb'"rows":\s?(\d{1,6})\b')
_HEAD = 2_048
_RECORD_BYTES = 256


class Lane(StrEnum):
    """Who reads: source engine_steps or source token_gaps."""

    STEPS = "steps"
    GAPS = "gaps"


_LANES: Mapping[Kind | None, tuple[Lane, ...]] = {
    Kind.STEPS: (Lane.STEPS,),
    Kind.GAPS: (Lane.GAPS,),
    Kind.REQUESTS: (Lane.STEPS, Lane.GAPS),  # both have requests, told by different parts of a tap
    None: (Lane.STEPS,),  # somebody has to say that it is none of ours
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """A datagram as it came.

    Attributes:
        data: Its bytes; empty when it was longer than any of ours.
        pid: Its sender as the kernel says; 0 when that cannot be seen from here.
        at: When.
    """

    data: bytes
    pid: int
    at: Instant

    @property
    def size(self) -> int:
        """Memory that it takes, about: a datagram may be empty, its record is not."""
        return len(self.data) + _RECORD_BYTES


@dataclass(slots=True)
class Taken:
    """What a lane held.

    Attributes:
        arrivals: Datagrams, oldest first.
        lost: How many there was no room for, by sender and kind.
        lost_rows: Rows in them.
    """

    arrivals: list[Arrival] = field(default_factory=list)
    lost: Counter[tuple[int, Kind | None]] = field(default_factory=Counter)
    lost_rows: int = 0


class _Lane:
    def __init__(self) -> None:
        self._waiting: deque[Arrival] = deque()
        self._bytes = 0
        self._lost = Taken()

    def put(self, arrival: Arrival, kind: Kind | None, limit_bytes: int) -> None:
        if self._bytes + arrival.size > limit_bytes:
            self._lost.lost[arrival.pid, kind] += 1
            self._lost.lost_rows += _rows_of(arrival.data)
            return
        self._waiting.append(arrival)
        self._bytes += arrival.size

    def take(self) -> Taken:
        taken, self._lost = self._lost, Taken()
        size = 0
        while self._waiting and size < _MOST_TAKEN:
            arrival = self._waiting.popleft()
            taken.arrivals.append(arrival)
            size += arrival.size
        self._bytes -= size
        return taken


class TapInbox:
    """Holds what has come until it is read; safe for threads.

    Args:
        limit_bytes: Room in each lane.
    """

    def __init__(self, limit_bytes: int = _MOST_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._lanes = {lane: _Lane() for lane in Lane}

    def put(self, arrival: Arrival) -> None:
        """Take a datagram in, or count it as lost where there is no room."""
        kind = kind_of(arrival.data)
        with self._lock:
            for lane in _LANES[kind]:
                self._lanes[lane].put(arrival, kind, self._limit_bytes)

    def take(self, lane: Lane) -> Taken:
        """Return what came since, some megabytes at most; the rest stays for the next time."""
        with self._lock:
            return self._lanes[lane].take()


def _rows_of(data: bytes) -> int:
    """Return how many rows a datagram says it has, without reading it; 1 when it does not say."""
    found = _ROWS.search(data, 0, _HEAD)
    return int(found[1]) if found else 1
