"""The catalog: a small DuckDB file of views that any DuckDB opens while the lake is written.

``catalog.duckdb`` is a symlink to the newest generation, swapped by rename: a new connect sees the
new generation even while an old handle is open (through a renamed file it would not). Paths in it
are absolute.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb

from stallscope.schema import TABLES
from stallscope.storage.follower import ManifestFollower
from stallscope.storage.layout import Layout
from stallscope.storage.locks import held
from stallscope.storage.manifest import Entry
from stallscope.storage.quarantine import obviously_damaged
from stallscope.storage.views import text, view_statement

_KEPT_GENERATIONS = 3
_GENERATION = re.compile(r"catalog-(\d+)\.duckdb")


class Publisher:
    """Writes a new catalog generation when the set of segments has changed."""

    def __init__(self, layout: Layout, library: Sequence[str] = ()) -> None:
        """Prepare to publish.

        Args:
            layout: The lake.
            library: Statements that add views and macros over the tables.
        """
        self._layout = layout
        self._library = tuple(library)
        self._follower = ManifestFollower(layout)
        self._published = ""

    def publish_if_changed(self) -> bool:
        """Publish when there is something new; whoever lives publishes, one at a time.

        Returns:
            Whether a new generation was published.

        Raises:
            OSError: The disk refused; the old generation stays.
            duckdb.Error: A view could not be made; the old generation stays.
        """
        version = self._follower.version()
        if version == self._published:
            return False
        with held(self._layout.lock("publisher")):
            entries = [
                e for e in self._follower.entries() if not obviously_damaged(self._layout, e)
            ]
            self._publish(entries)
        self._published = version
        return True

    def _publish(self, entries: Sequence[Entry]) -> None:
        """Write the next generation and point the symlink at it."""
        generations = _generations(self._layout.root)
        number = max(generations, default=0) + 1
        target = self._layout.root / f"catalog-{number:012d}.duckdb"
        temporary = target.with_suffix(".tmp")
        temporary.unlink(missing_ok=True)
        try:
            _write_catalog(temporary, self._layout.segments, entries, self._library)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        _swap_symlink(self._layout.catalog, target.name)
        for old in sorted(generations)[: -(_KEPT_GENERATIONS - 1)]:
            generations[old].unlink(missing_ok=True)


def _generations(root: Path) -> dict[int, Path]:
    """Return the catalog files by generation."""
    return {
        int(match[1]): path
        for path in root.glob("catalog-*.duckdb")
        if (match := _GENERATION.fullmatch(path.name))
    }


def _write_catalog(
    path: Path, segments: Path, entries: Sequence[Entry], library: Iterable[str]
) -> None:
    """Write a catalog file that DuckDB 1.5 reads too."""
    with duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "64MB"}) as connection:
        options = "BLOCK_SIZE 16384, STORAGE_VERSION 'v1.0.0'"
        connection.execute(f"ATTACH {text(str(path))} AS catalog ({options})")
        connection.execute("USE catalog")
        connection.execute("BEGIN")
        for table in TABLES.values():
            connection.execute(view_statement(table, entries, segments))
        for statement in library:
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("USE memory")
        connection.execute("DETACH catalog")


def _swap_symlink(link: Path, target: str) -> None:
    """Point a symlink at a file of the same folder, in one step."""
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)
