"""Which lines of /proc/diskstats are disks, what each disk is and what it is made of.

sysfs decides where it is there; names decide where it is not (containers, path devices).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from collector.disk_facts import disk_folder, read_facts
from collector.diskstats import Key
from collector.edges.sysfs import exists, list_names, read_integer, resolve

_NVME_PATH = re.compile(r"nvme(\d+)c\d+n(\d+)")
_PARTITION = re.compile(
    r"(?:nvme\d+n\d+|mmcblk\d+|md\d+|nbd\d+|loop\d+)p\d+|(?:sd|hd|vd|xvd)[a-z]+\d+"
)
_VIRTUAL = re.compile(r"(?:loop|ram|zram|sr|nbd|fd)\d+")


@dataclass(frozen=True, slots=True)
class Disk:
    """One disk and the lines that count for it.

    Attributes:
        kernel_name: Name in /sys/block, for example ``dm-3``.
        head: Its own line; None when only paths of it are listed.
        paths: Lines of the paths of a multipath NVMe namespace.
        identity: What cannot change while it is the same disk.
        facts: Columns of table device.
        members: Kernel names of the disks it is stacked on.
        frozen: The kernel was told not to count (queue/iostats is 0).
        inflight: Where reads and writes in flight stand apart.
    """

    kernel_name: str
    head: Key | None
    paths: tuple[Key, ...]
    identity: tuple[object, ...]
    facts: Mapping[str, object]
    members: tuple[str, ...]
    frozen: bool
    inflight: Path

    @property
    def keys(self) -> tuple[Key, ...]:
        """Every line that belongs to it."""
        return self.paths if self.head is None else (self.head, *self.paths)


def find_disks(keys: Iterable[Key], sys: Path, *, include_virtual: bool) -> tuple[Disk, ...]:
    """Return the disks among the lines of one reading, in file order.

    Args:
        keys: What the lines are about.
        sys: Root of the sys file system.
        include_virtual: Report loop, ram, zram, sr, nbd and fd devices as well.
    """
    heads: dict[str, Key | None] = {}
    paths: dict[str, list[Key]] = {}
    for key in keys:
        head = head_of_path(key.name)
        if head is not None:
            heads.setdefault(head, None)
            paths.setdefault(head, []).append(key)
        elif is_disk(key.name, sys, include_virtual=include_virtual):
            heads[key.name] = key
    disks = [_describe(name, key, tuple(paths.get(name, ())), sys) for name, key in heads.items()]
    return tuple(_with_counted(disk, heads) for disk in disks)


def head_of_path(name: str) -> str | None:
    """Return the namespace that a multipath path device belongs to, else None.

    ``nvme0c3n1`` is the path of ``nvme0n1`` through controller 3; it has no ordinary entry in
    /sys/block (fio#549).
    """
    match = _NVME_PATH.fullmatch(name)
    return None if match is None else f"nvme{match[1]}n{match[2]}"


def is_disk(name: str, sys: Path, *, include_virtual: bool) -> bool:
    """Return whether a line is a disk that is reported."""
    if _VIRTUAL.fullmatch(name) and not include_virtual:
        return False
    return not is_partition(name, sys)


def is_partition(name: str, sys: Path) -> bool:
    """Return whether a line is a partition: sysfs first, since names lie (psutil#1244)."""
    entry = sys / "class/block" / name.replace("/", "!")
    if exists(entry):
        return exists(entry / "partition")
    if exists(disk_folder(sys, name)):
        return False
    return _PARTITION.fullmatch(name) is not None


def _describe(name: str, head: Key | None, paths: tuple[Key, ...], sys: Path) -> Disk:
    """Return a disk as sysfs describes it now; whether it is counted is not known yet."""
    folder = disk_folder(sys, name)
    facts = read_facts(folder, name, sys, virtual=_VIRTUAL.fullmatch(name) is not None)
    members = _find_members(folder, sys)
    # Before Linux 5.x stacked devices had iostats 0 and were counted all the same.
    frozen = not members and read_integer(folder / "queue/iostats") == 0
    number = (head.major, head.minor) if head else ()
    identity = (*number, facts["name"], facts["serial_hash"], read_integer(folder / "diskseq"))
    return Disk(name, head, paths, identity, facts, members, frozen, folder / "inflight")


def _find_members(folder: Path, sys: Path) -> tuple[str, ...]:
    """Return the disks that a device-mapper or md device is stacked on."""
    return tuple(_whole_disk(name, sys) for name in list_names(folder / "slaves"))


def _whole_disk(name: str, sys: Path) -> str:
    """Return the disk of a partition, and any other name as it is."""
    entry = sys / "class/block" / name
    if not exists(entry / "partition"):
        return name
    place = resolve(entry)
    return name if place is None else place.parent.name


def _with_counted(disk: Disk, reported: Mapping[str, object]) -> Disk:
    """Return the disk with ``counted``: false when its members are in the totals already."""
    counted = not any(member in reported for member in disk.members)
    return replace(disk, facts={**disk.facts, "counted": counted})
