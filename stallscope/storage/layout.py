"""Where things lie in a lake, and what makes a folder one."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from stallscope.errors import LakeError
from stallscope.schema import SCHEMA_VERSION

LAYOUT_VERSION = 1
_FOLDERS = ("manifest", "journal", "segments", "quarantine", "locks")


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of a lake.

    Attributes:
        root: The lake's folder, absolute.
    """

    root: Path

    @property
    def identity(self) -> Path:
        """The file that makes a folder a lake."""
        return self.root / "lake.json"

    @property
    def catalog(self) -> Path:
        """The symlink that any DuckDB opens."""
        return self.root / "catalog.duckdb"

    @property
    def segments(self) -> Path:
        """Folder of sealed segments, one folder per table."""
        return self.root / "segments"

    @property
    def manifests(self) -> Path:
        """Folder of manifests, one per writer."""
        return self.root / "manifest"

    @property
    def quarantine(self) -> Path:
        """Folder of damaged segments and the reasons."""
        return self.root / "quarantine"

    def manifest(self, writer: str) -> Path:
        """Return the manifest of a writer."""
        return self.manifests / f"{writer}.jsonl"

    def journal(self, writer: str) -> Path:
        """Return the journal folder of a writer."""
        return self.root / "journal" / writer

    def lock(self, name: str) -> Path:
        """Return the lock file of that name."""
        return self.root / "locks" / f"{name}.lock"

    def writers(self) -> list[str]:
        """Return the names of all writers that ever sealed something here."""
        return sorted(path.stem for path in self.manifests.glob("*.jsonl"))


def create_lake(root: Path, host: str = "") -> Layout:
    """Make a folder a lake, or open the lake that is there.

    Args:
        root: Folder; made when absent, parents too.
        host: Host name to record in a new lake.

    Raises:
        LakeError: The folder cannot be written, or holds a lake of a newer layout.
    """
    layout = Layout(root.absolute())
    try:
        for folder in _FOLDERS:
            (layout.root / folder).mkdir(parents=True, exist_ok=True)
        if not layout.identity.exists():
            identity = {
                "layout": LAYOUT_VERSION,
                "schema": SCHEMA_VERSION,
                "lake": uuid.uuid4().hex,
                "host": host,
            }
            replace_file(layout.identity, json.dumps(identity, indent=1).encode() + b"\n")
    except OSError as error:
        msg = f"cannot write the lake {layout.root}: {error.strerror}"
        raise LakeError(
            msg, "Choose another folder with --lake, or give this one write rights"
        ) from (error)
    return open_lake(layout.root)


def open_lake(root: Path) -> Layout:
    """Return the layout of an existing lake.

    Raises:
        LakeError: There is no lake, it cannot be read, or its layout is newer than this program.
    """
    layout = Layout(root.absolute())
    try:
        identity = json.loads(layout.identity.read_text(encoding="utf-8"))
        version = int(identity["layout"])
    except FileNotFoundError:
        msg = f"no lake at {layout.root}"
        raise LakeError(msg, "Start one with: stallscope up, or name another with --lake") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = f"cannot read {layout.identity}: {error}"
        raise LakeError(msg, "Restore that file from a backup of the lake") from error
    if version > LAYOUT_VERSION:
        msg = f"{layout.root} has layout {version}, this program knows up to {LAYOUT_VERSION}"
        raise LakeError(msg, "Upgrade stallscope")
    return layout


def replace_file(path: Path, content: bytes, *, sync: bool = True) -> None:
    """Write a file so that a reader sees the old or the new content, never a part.

    Raises:
        OSError: The new content could not be written; the old one is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
