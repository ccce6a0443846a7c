"""The contract of a source: one signal, one file, three outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from stallscope.clock import Clock

Row: TypeAlias = Mapping[str, object]
Rows: TypeAlias = Sequence[Row] | pa.RecordBatch


class State(StrEnum):
    """What became of a poll, in the words of source_health."""

    WORKING = "working"
    PARTIAL = "partial"
    NOT_FOUND = "not_found"
    NOT_APPLICABLE = "not_applicable"
    UNSUPPORTED = "unsupported"
    DISABLED = "disabled"
    RESTRICTED = "restricted"
    GONE = "gone"
    FAILED = "failed"
    HUNG = "hung"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows were taken.

    Attributes:
        rows: Rows per table name; columns that are left out are NULL.
        rejects: Input lines that were refused; their neighbours are in ``rows``.
        reason: Empty when all went well, else what is missing: the source is then partial.
        dropped: Rows that were thrown away or never came, since the reading before.
        interval_us: Pace of these rows where it is not the source's: it says when they are stale.
    """

    rows: Mapping[str, Rows]
    rejects: int = 0
    reason: str = ""
    dropped: int = 0
    interval_us: int | None = None


@dataclass(frozen=True, slots=True)
class NoData:
    """Nothing could be taken, and that is an answer.

    Attributes:
        state: Why, in one word.
        reason: One sentence for people: what exactly, and what to do.
        rest_us: How long to rest before asking again; None for what is usual in that state.
    """

    state: State
    reason: str
    rest_us: int | None = None


class SourceError(Exception):
    """A poll failed; the message says on what. Counted, and tried again at the next tick."""


class Names(Protocol):
    """Gives out the ids that rows carry; the same facts get the same id for ever."""

    def engine(self, facts: Row) -> int:
        """Return the id of an engine, writing a row when it is new.

        Args:
            facts: Columns of table engine without ``wall_us`` and ``engine``; all but name and
                version make it the engine it is.
        """

    def device(self, facts: Row) -> int:
        """Return the id for (kind, name, serial_hash), writing a row when facts are new.

        Args:
            facts: Columns of table device without ``wall_us`` and ``device``.
        """

    def requests(self, count: int) -> int:
        """Return the first of so many request ids that are nobody else's, now and later."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything a source may touch, handed in so that a recorded machine can stand in.

    Attributes:
        proc: Root of the proc file system.
        sys: Root of the sys file system.
        host: Host name that rows and labels carry.
        clock: Where the time comes from.
        names: Gives out engine and device ids.
    """

    proc: Path
    sys: Path
    host: str
    clock: Clock
    names: Names = field(repr=False)


class Source(Protocol):
    """One signal. A source is polled by one thread and never by two at once."""

    @property
    def name(self) -> str:
        """Name in source_health, settings and docs."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Tables it writes."""

    @property
    def interval_us(self) -> int:
        """Wanted pace."""

    @property
    def deadline_us(self) -> int:
        """After this long a poll counts as hung; its neighbours go on."""

    def read(self) -> Reading | NoData:
        """Take one reading.

        Raises:
            SourceError: The reading failed for a reason worth counting.
        """

    def close(self) -> None:
        """Give back what the source holds open."""


@runtime_checkable
class Receiving(Protocol):
    """What a source has besides, when others send to it and are told that it arrived.

    At the end of a run nothing more is let in, and then the source is read once more.
    """

    def stop_receiving(self) -> None:
        """Let nothing more in; what came already is still there for the last reading."""
