"""Stand-ins that the collector's tests share: a clock, a store, scripted sources."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from collector.source import NoData, Reading, Row, Rows
from stallscope.clock import Instant

SECOND = 1_000_000
WALL = 1_700_000_000 * SECOND


@dataclass
class ManualClock:
    """A clock that moves when told."""

    mono_us: int = 1_000 * SECOND
    wall_offset_us: int = WALL

    def now(self) -> Instant:
        return Instant(self.wall_offset_us + self.mono_us, self.mono_us)

    def advance(self, us: int) -> None:
        self.mono_us += us


@dataclass
class MemoryStore:
    """What a lake's writer does, in memory."""

    stored: dict[str, list[Row]] = field(default_factory=dict)
    reserved: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def append(self, table: str, rows: Rows, /) -> None:
        plain: Sequence[Row] = rows if isinstance(rows, Sequence) else rows.to_pylist()
        with self.lock:
            self.stored.setdefault(table, []).extend(plain)

    def reserve(self, kind: str, count: int = 1, /) -> int:
        first = self.reserved.get(kind, 1)
        self.reserved[kind] = first + count
        return first

    def facts(self, table: str, /) -> Sequence[Row]:
        return list(self.stored.get(table, []))

    def health_of(self, source: str) -> list[Row]:
        with self.lock:
            rows = list(self.stored.get("source_health", []))
        return [row for row in rows if row["source"] == source]


@dataclass
class ScriptedSource:
    """A source whose reads are written down beforehand; the last one repeats."""

    script: list[Callable[[], Reading | NoData]]
    name: str = "scripted"
    tables: tuple[str, ...] = ("host_pressure",)
    interval_us: int = 10_000
    deadline_us: int = SECOND
    reads: int = 0
    closed: int = 0
    at_once: int = 0
    most_at_once: int = 0

    def read(self) -> Reading | NoData:
        step = self.script[min(self.reads, len(self.script) - 1)]
        self.reads += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return step()
        finally:
            self.at_once -= 1

    def close(self) -> None:
        self.closed += 1


def one_row() -> Reading:
    """Return a reading of one row."""
    return Reading({"host_pressure": [{"wall_us": WALL, "mono_us": SECOND, "scope": "system"}]})


def raising(error: BaseException) -> Callable[[], Reading | NoData]:
    """Return a read that raises."""

    def read() -> Reading | NoData:
        raise error

    return read
