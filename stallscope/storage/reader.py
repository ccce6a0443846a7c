"""Our own readers: by the manifest, pruned by time, a fresh connection for each question."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from stallscope.errors import LakeError
from stallscope.schema import TABLES
from stallscope.storage.follower import ManifestFollower
from stallscope.storage.layout import open_lake
from stallscope.storage.manifest import Entry
from stallscope.storage.quarantine import Damage, obviously_damaged, quarantined
from stallscope.storage.rollup_sql import rollup_into
from stallscope.storage.views import view_statement

MEMORY_LIMIT = "512MB"
THREADS = 2


@dataclass(frozen=True, slots=True)
class LakeStatus:
    """What lies in a lake.

    Attributes:
        segments: Number of segments that count.
        rows: Their rows, rollups among them.
        bytes: Their size.
        oldest_us: Time of the oldest row, None when there is none.
        newest_us: Time of the newest row.
        tables: (table, segments, rows, bytes) per table that has rows.
        quarantine: What was set aside, oldest first.
        damaged: Segments passed over right now, with the reason.
    """

    segments: int
    rows: int
    bytes: int
    oldest_us: int | None
    newest_us: int | None
    tables: list[tuple[str, int, int, int]]
    quarantine: list[Damage]
    damaged: list[str]


class Lake:
    """A lake to read from; may be shared by threads and kept for as long as you like."""

    def __init__(self, path: Path) -> None:
        """Open a lake.

        Raises:
            LakeError: There is none, or it cannot be read.
        """
        self.layout = open_lake(path)
        self._follower = ManifestFollower(self.layout)
        self._lock = threading.Lock()

    def version(self) -> str:
        """Return a text that changes whenever the set of segments does.

        Raises:
            LakeError: A manifest cannot be read.
        """
        try:
            return self._follower.version()
        except OSError as error:
            raise self._unreadable(error) from error

    def entries(
        self,
        tables: Iterable[str] | None = None,
        since_us: int | None = None,
        until_us: int | None = None,
    ) -> list[Entry]:
        """Return the segments that may hold rows of a time range, missing or cut ones left out.

        Raises:
            LakeError: A manifest cannot be read.
        """
        wanted = None if tables is None else set(tables)
        return [
            entry
            for entry in self._all()
            if (wanted is None or entry.table in wanted)
            and entry.overlaps(since_us, until_us)
            and not obviously_damaged(self.layout, entry)
        ]

    def connect(
        self,
        *,
        tables: Iterable[str] | None = None,
        since_us: int | None = None,
        until_us: int | None = None,
        library: Iterable[str] = (),
    ) -> duckdb.DuckDBPyConnection:
        """Return a connection that sees the lake as it is now; close it after use.

        Args:
            tables: Tables to make views for; all when None.
            since_us: Leave out segments that end before; rows in a segment are not filtered.
            until_us: Leave out segments that begin later.
            library: More statements to run, such as views and macros.

        Raises:
            LakeError: A manifest cannot be read.
        """
        names = list(TABLES) if tables is None else list(tables)
        sources = {r.source for name in names if (r := rollup_into(name)) is not None}
        entries = self.entries({*names, *sources}, since_us, until_us)
        connection = duckdb.connect(
            ":memory:", config={"memory_limit": MEMORY_LIMIT, "threads": THREADS}
        )
        try:
            for name in names:
                connection.execute(view_statement(TABLES[name], entries, self.layout.segments))
            for statement in library:
                connection.execute(statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def status(self) -> LakeStatus:
        """Return what lies in the lake.

        Raises:
            LakeError: A manifest cannot be read.
        """
        entries = self._all()
        damaged = [reason for entry in entries if (reason := obviously_damaged(self.layout, entry))]
        return LakeStatus(
            segments=len(entries),
            rows=sum(entry.rows for entry in entries),
            bytes=sum(entry.bytes for entry in entries),
            oldest_us=min((entry.lo for entry in entries if entry.lo is not None), default=None),
            newest_us=max((entry.hi for entry in entries if entry.hi is not None), default=None),
            tables=_per_table(entries),
            quarantine=quarantined(self.layout),
            damaged=damaged,
        )

    def _all(self) -> list[Entry]:
        """Return all segments that count."""
        try:
            with self._lock:
                return self._follower.entries()
        except OSError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError) -> LakeError:
        """Return the error for a manifest that cannot be read."""
        msg = f"cannot read the manifests of {self.layout.root}: {error.strerror}"
        return LakeError(msg, "Give this user read rights on the lake")


def _per_table(entries: Iterable[Entry]) -> list[tuple[str, int, int, int]]:
    """Return (table, segments, rows, bytes) by table."""
    found: dict[str, tuple[int, int, int]] = {}
    for entry in entries:
        segments, rows, size = found.get(entry.table, (0, 0, 0))
        found[entry.table] = (segments + 1, rows + entry.rows, size + entry.bytes)
    return [(name, *counts) for name, counts in sorted(found.items())]
