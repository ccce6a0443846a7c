"""A machine made of files, for sources that read /proc and /sys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collector.names import StoredNames
from collector.source import Machine, NoData, Reading, Row, Source
from tests.collector.stand_ins import ManualClock, MemoryStore

FIELDS = (
    "reads", "read_merges", "read_sectors", "read_ms",
    "writes", "write_merges", "write_sectors", "write_ms",
    "in_flight", "busy_ms", "weighted_ms",
    "discards", "discard_merges", "discard_sectors", "discard_ms",
    "flushes", "flush_ms",
)  # fmt: skip


class FakeMachine:
    """Files under a folder, a clock that moves when told, and a store for ids."""

    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.sys = root / "sys"
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.machine = Machine(
            self.proc, self.sys, "host-1", self.clock, StoredNames(self.store, self.clock)
        )
        for folder in (self.proc, self.sys):
            folder.mkdir(parents=True, exist_ok=True)

    def write(self, path: str, text: str) -> None:
        """Write a file in place, as the kernel changes its own: open descriptors see it."""
        file = self.proc.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def link(self, path: str, target: str) -> None:
        """Make a link; both are relative to the root of the machine."""
        file = self.proc.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(self.proc.parent / target)

    def show_disks(self, *lines: str) -> None:
        """Write /proc/diskstats."""
        self.write("proc/diskstats", "".join(f"{line}\n" for line in lines))

    def devices(self) -> dict[str, Row]:
        """Return the newest device row per name."""
        return {str(row["name"]): row for row in self.store.stored.get("device", [])}


def disk_line(name: str, number: str = "259 0", fields: int = 17, **values: int) -> str:
    """Return a line of /proc/diskstats; what is not named is 0."""
    assert set(values) <= set(FIELDS)
    numbers = (str(values.get(field, 0)) for field in FIELDS[:fields])
    return f" {number} {name} {' '.join(numbers)}"


def rows_of(source: Source) -> Sequence[Row]:
    """Return the rows of one reading that must have worked."""
    reading = source.read()
    assert isinstance(reading, Reading), reading
    (rows,) = reading.rows.values()
    assert isinstance(rows, Sequence)
    return rows


def row_of(source: Source) -> Row:
    """Return the only row of one reading."""
    (row,) = rows_of(source)
    return row


def refusal_of(source: Source) -> NoData:
    """Return why there was no reading."""
    answer = source.read()
    assert isinstance(answer, NoData), answer
    return answer


def count_descriptors() -> int:
    """Return how many files this process holds open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
