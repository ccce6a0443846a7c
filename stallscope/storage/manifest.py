"""The manifest: which segments count. A commit is one line; what is not in it does not exist.

Each writer appends to its own file, one JSON object a line behind its CRC-32, so that a commit is
whole or absent, and a reader can follow it from where it left off. A snapshot replaces the file by
rename when it has grown long.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from stallscope.errors import LakeError
from stallscope.storage.layout import replace_file

_SNAPSHOT_EVERY_LINES = 2_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One sealed segment.

    Attributes:
        file: Path below the lake's segments folder.
        table: Table it belongs to.
        rows: Number of rows.
        bytes: File size.
        digest: BLAKE2b-128 of the file: DuckDB ignores Parquet page checksums.
        lo: Smallest time in microseconds, or None for a table without time.
        hi: Largest time in microseconds, or None.
        version: Schema version it was written with.
        boot_id: Boot in which its monotonic times count; empty when it spans none.
        first: First journal sequence in it.
        last: Last journal sequence in it.
        level: 0 sealed, 1 a minute, 2 an hour, 3 a day.
    """

    file: str
    table: str
    rows: int
    bytes: int
    digest: str
    lo: int | None
    hi: int | None
    version: int
    boot_id: str
    first: int
    last: int
    level: int

    def overlaps(self, since_us: int | None, until_us: int | None) -> bool:
        """Return whether it may hold rows of a time range, both ends included."""
        return (since_us is None or self.hi is None or self.hi >= since_us) and (
            until_us is None or self.lo is None or self.lo <= until_us
        )


@dataclass(slots=True)
class Contents:
    """What a manifest says after all its commits.

    Attributes:
        entries: Segments that count, by file.
        sealed: Last journal sequence sealed, per table.
        reserved: Next free id, per kind.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    sealed: dict[str, int] = field(default_factory=dict)
    reserved: dict[str, int] = field(default_factory=dict)

    def apply(self, commit: Mapping[str, object]) -> None:
        """Take one commit in."""
        for file in commit.get("remove", ()):  # type: ignore[attr-defined]
            self.entries.pop(file, None)
        for raw in commit.get("add", ()):  # type: ignore[attr-defined]
            entry = Entry(**raw)
            self.entries[entry.file] = entry
        self.sealed.update(commit.get("sealed", {}))  # type: ignore[call-overload]
        self.reserved.update(commit.get("reserved", {}))  # type: ignore[call-overload]

    def as_commit(self) -> dict[str, object]:
        """Return the one commit that leads to these contents."""
        return {
            "add": [asdict(entry) for entry in self.entries.values()],
            "sealed": self.sealed,
            "reserved": self.reserved,
        }


def _encode(commit: Mapping[str, object]) -> bytes:
    """Return a commit as a line."""
    body = json.dumps(commit, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def _is_whole(line: bytes) -> bool:
    """Return whether a line is as it was written."""
    crc, _, body = line.rstrip(b"\n").partition(b" ")
    try:
        return line.endswith(b"\n") and int(crc, 16) == zlib.crc32(body)
    except ValueError:
        return False


def decode(line: bytes) -> dict[str, object] | None:
    """Return the commit on a line, or None when the line is torn or damaged."""
    if not _is_whole(line):
        return None
    try:
        commit = json.loads(line.partition(b" ")[2])
    except ValueError:
        return None
    return commit if isinstance(commit, dict) else None


def write_manifest(path: Path, contents: Contents) -> None:
    """Replace a manifest by one that says the same in one line.

    Raises:
        OSError: It could not be written.
    """
    replace_file(path, _encode(contents.as_commit()))


def read_manifest(path: Path) -> tuple[Contents, int]:
    """Return the contents and the number of bytes that make them up.

    A torn last line is a commit that never happened; damage before the last line is an error,
    since commits behind it would be lost in silence.

    Raises:
        LakeError: A line in the middle is damaged.
        OSError: The file cannot be read.
    """
    contents, used = Contents(), 0
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        commit = decode(line)
        if commit is None:
            if number == len(lines):
                break
            msg = f"{path} line {number} is damaged"
            raise LakeError(msg, "Start the collector: it rebuilds its manifest from the segments")
        contents.apply(commit)
        used += len(line)
    return contents, used


def _write_all(file: int, data: bytes, offset: int) -> None:
    """Write all bytes at an offset."""
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


class ManifestWriter:
    """The one process that may append to a manifest; safe for its threads."""

    def __init__(self, path: Path, *, sync: bool) -> None:
        """Open or create the manifest and cut a torn last line.

        Raises:
            LakeError: The manifest is damaged in the middle.
            OSError: It cannot be read or written.
        """
        self._path = path
        self._sync = sync
        self._lock = threading.Lock()
        path.touch(exist_ok=True)
        self.contents, used = read_manifest(path)
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        os.ftruncate(self._file, used)
        self._end = used
        self._lines = 0

    def commit(
        self,
        *,
        add: Iterable[Entry] = (),
        remove: Iterable[str] = (),
        sealed: Mapping[str, int] | None = None,
        reserved: Mapping[str, int] | None = None,
    ) -> None:
        """Make segments count, or stop counting, all at once.

        Raises:
            OSError: Nothing of it happened.
        """
        commit: dict[str, object] = {"add": [asdict(entry) for entry in add]}
        commit |= {"remove": list(remove)} | {"sealed": dict(sealed or {})}
        commit |= {"reserved": dict(reserved or {})}
        with self._lock:
            self._append(_encode({key: value for key, value in commit.items() if value}))
            self.contents.apply(commit)
            self._lines += 1
            if self._lines >= _SNAPSHOT_EVERY_LINES:
                with suppress(OSError):  # the commit counts; the long file does as well
                    self._snapshot()

    def heal(self) -> bool:
        """Write the file anew when its bytes are not what was committed.

        Returns:
            Whether it was damaged.

        Raises:
            OSError: It cannot be read or written.
        """
        with self._lock:
            sound = self._is_sound()
            if not sound:
                self._snapshot()
        return not sound

    def _is_sound(self) -> bool:
        """Return whether the file under our path is the one we hold, byte for byte."""
        try:
            data = self._path.read_bytes()
            ours = os.path.samestat(self._path.stat(), os.fstat(self._file))
        except FileNotFoundError:
            return False
        return (
            ours and len(data) == self._end and all(map(_is_whole, data.splitlines(keepends=True)))
        )

    def entries(self) -> list[Entry]:
        """Return the segments that count, in order of table and sequence."""
        with self._lock:
            found = list(self.contents.entries.values())
        return sorted(found, key=lambda entry: (entry.table, entry.first))

    def _append(self, line: bytes) -> None:
        """Write one line, or cut the file back to where it was."""
        try:
            _write_all(self._file, line, self._end)
            if self._sync:
                os.fdatasync(self._file)
        except OSError:
            os.ftruncate(self._file, self._end)
            raise
        self._end += len(line)

    def _snapshot(self) -> None:
        """Replace the file by one line that says the same; a failure leaves the file there is."""
        line = _encode(self.contents.as_commit())
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        # opened before it gets its name: were it opened after, a failure would leave commits going
        # into a file that nobody reads any more
        file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            _write_all(file, line, 0)
            if self._sync:
                os.fsync(file)
            temporary.replace(self._path)
        except OSError:
            os.close(file)
            temporary.unlink(missing_ok=True)
            raise
        os.close(self._file)
        self._file, self._end, self._lines = file, len(line), 0

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
