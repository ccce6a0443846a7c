"""Following manifests: each commit is read once, however long the file has grown."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from stallscope.storage.layout import Layout
from stallscope.storage.manifest import Contents, Entry, decode


@dataclass(slots=True)
class _Followed:
    """One manifest and how far it was read."""

    inode: int = 0
    offset: int = 0
    contents: Contents = field(default_factory=Contents)


class ManifestFollower:
    """Keeps the union of all writers' manifests up to date."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._followed: dict[str, _Followed] = {}

    def entries(self) -> list[Entry]:
        """Return the segments that count now, all writers together.

        Raises:
            OSError: A manifest cannot be read.
        """
        for writer in self._layout.writers():
            self._update(writer)
        return [
            entry
            for followed in self._followed.values()
            for entry in followed.contents.entries.values()
        ]

    def version(self) -> str:
        """Return a text that changes whenever the set of segments does."""
        parts = []
        for writer in self._layout.writers():
            status = self._layout.manifest(writer).stat()
            parts.append(f"{writer}:{status.st_ino}:{status.st_size}")
        return " ".join(parts)

    def _update(self, writer: str) -> None:
        """Read what was appended, or everything when a snapshot replaced the file."""
        followed = self._followed.setdefault(writer, _Followed())
        with self._layout.manifest(writer).open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_ino != followed.inode or status.st_size < followed.offset:
                followed = self._followed[writer] = _Followed(inode=status.st_ino)
            file.seek(followed.offset)
            for line in file:
                commit = decode(line)
                if commit is None:  # torn, or still being written: it is read next time
                    break
                followed.contents.apply(commit)
                followed.offset += len(line)
