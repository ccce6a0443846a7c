"""Damaged files are set aside with a visible reason, so that one of them never breaks a query."""

from __future__ import annotations

import errno
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from stallscope.clock import Clock
from stallscope.errors import SegmentError
from stallscope.storage.layout import Layout, replace_file
from stallscope.storage.manifest import Entry, ManifestWriter
from stallscope.storage.segment import check_segment


@dataclass(frozen=True, slots=True)
class Damage:
    """One file that was set aside.

    Attributes:
        file: Its path below the lake.
        reason: What is wrong with it.
        rows: Rows that are not readable any more, 0 when unknown.
        wall_us: When it was found.
    """

    file: str
    reason: str
    rows: int
    wall_us: int


def set_aside_segment(
    layout: Layout, manifest: ManifestWriter, entry: Entry, reason: str, clock: Clock
) -> Damage:
    """Take a segment out of the manifest and move it to quarantine.

    Raises:
        OSError: The manifest could not be written; nothing happened.
    """
    manifest.commit(remove=[entry.file])
    damage = Damage(f"segments/{entry.file}", reason, entry.rows, clock.now().wall_us)
    return _move(layout, layout.segments / entry.file, damage)


def set_aside_file(layout: Layout, path: Path, reason: str, clock: Clock) -> Damage:
    """Move a file that no manifest names, such as a manifest, to quarantine."""
    relative = str(path.relative_to(layout.root))
    return _move(layout, path, Damage(relative, reason, 0, clock.now().wall_us))


def show_file(layout: Layout, path: Path, reason: str, clock: Clock) -> Damage:
    """Give a damaged file a second name in quarantine; it stays where it is until it is deleted.

    For a journal part whose good rows are not sealed yet: a kill must find it again.
    """
    relative = str(path.relative_to(layout.root))
    damage = Damage(relative, reason, 0, clock.now().wall_us)
    target = _place(layout, damage)
    target.unlink(missing_ok=True)
    target.hardlink_to(path)
    return _note(target, damage)


def _place(layout: Layout, damage: Damage) -> Path:
    """Return the name of a file in quarantine."""
    return layout.quarantine / damage.file.replace("/", "__")


def _move(layout: Layout, path: Path, damage: Damage) -> Damage:
    """Move the file and write the reason beside it; a missing file leaves only the reason."""
    target = _place(layout, damage)
    if path.exists():
        path.replace(target)
    return _note(target, damage)


def _note(target: Path, damage: Damage) -> Damage:
    """Write the reason beside a file in quarantine."""
    note = target.with_name(target.name + ".reason.json")
    replace_file(note, json.dumps(asdict(damage), indent=1).encode() + b"\n", sync=False)
    return damage


def quarantined(layout: Layout) -> list[Damage]:
    """Return what lies in quarantine, oldest first."""
    found = []
    for note in layout.quarantine.glob("*.reason.json"):
        try:
            found.append(Damage(**json.loads(note.read_text(encoding="utf-8"))))
        except (OSError, ValueError, TypeError):
            found.append(Damage(note.name, "its reason cannot be read", 0, 0))
    return sorted(found, key=lambda damage: damage.wall_us)


def obviously_damaged(layout: Layout, entry: Entry) -> str:
    """Return what a look at the file's size says is wrong with it, or an empty string."""
    try:
        size = (layout.segments / entry.file).stat().st_size
    except FileNotFoundError:
        return f"{entry.file} is missing"
    except OSError as error:
        return f"{entry.file} cannot be read: {error.strerror}"
    if size != entry.bytes:
        return f"{entry.file} has {size} bytes, {entry.bytes} were sealed"
    return ""


def damage_of(layout: Layout, entry: Entry) -> str:
    """Return what a full check of the file says is wrong with it, or an empty string."""
    try:
        check_segment(layout.segments, entry)
    except SegmentError as error:
        return error.message
    return ""


def may_pass(layout: Layout, entry: Entry) -> bool:
    """Return whether a segment may be whole although it cannot be read now.

    Rights may be given back, a folder mounted again, descriptors freed; a bad sector stays.
    """
    try:
        if not layout.segments.is_dir():
            return True
        with (layout.segments / entry.file).open("rb") as file:
            while file.read(1 << 20):
                pass
    except FileNotFoundError:
        return False
    except OSError as error:
        return error.errno != errno.EIO
    return False
