"""Following manifests: each commit is read once, however long the file has grown."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import BinaryIO

from stallscope.storage.layout import Layout
from stallscope.storage.manifest import Contents, Entry, decode

_HEAD_BYTES = 8  # the checksum of the first line


@dataclass(slots=True)
class _Followed:
    """One manifest and how far it was read."""

    identity: tuple[int, bytes] = (0, b"")
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
            # a snapshot may get the inode number of the one before it, so that alone tells nothing
            identity = (status.st_ino, file.read(_HEAD_BYTES))
            if identity != followed.identity or status.st_size < followed.offset:
                followed = self._followed[writer] = _Followed(identity)
            if not _read_on(file, followed) and followed.offset:
                # what was read was taken back by its writer, and other lines stand there now
                followed = self._followed[writer] = _Followed(identity)
                _read_on(file, followed)


def _read_on(file: BinaryIO, followed: _Followed) -> bool:
    """Take in the lines behind the offset; return whether each that is complete is also whole."""
    file.seek(followed.offset)
    for line in file:
        commit = decode(line)
        if commit is None:  # torn, or still being written: it is read next time
            return not line.endswith(b"\n")
        followed.contents.apply(commit)
        followed.offset += len(line)
    return True
