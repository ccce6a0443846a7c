"""What /proc/diskstats says, line by line. Pure; what follows from two readings is `disk_rates`.

Field order: Documentation/admin-guide/iostats.rst and diskstats_show in block/genhd.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Statistics: TypeAlias = tuple[int | None, ...]
"""The 17 statistics of a line in kernel order; None where the line does not have them."""

(
    READS, READ_MERGES, READ_SECTORS, READ_MS,
    WRITES, WRITE_MERGES, WRITE_SECTORS, WRITE_MS,
    IN_FLIGHT, BUSY_MS, WEIGHTED_MS,
    DISCARDS, DISCARD_MERGES, DISCARD_SECTORS, DISCARD_MS,
    FLUSHES, FLUSH_MS,
) = range(17)  # fmt: skip
COMPLETED = (READS, WRITES, DISCARDS, FLUSHES)

_LINE_PARTS = 4  # major, minor, name, statistics
FIELDS = 17
ALWAYS_THERE = 11  # fields after these were appended by 4.18 (discards) and 5.5 (flushes)
_OLD_PARTITION = 4  # 2.6.0 to 2.6.24: reads, sectors read, writes, sectors written
_KNOWN_COUNTS = frozenset({_OLD_PARTITION, 11, 15, 17})
_DIGITS = 20  # of 2**64
_NEGATIVE = 1 << 31  # in flight is signed inside the kernel and printed as %u


class Key(NamedTuple):
    """What a line is about."""

    major: str
    minor: str
    name: str


class Line(NamedTuple):
    """A line whose statistics are not read yet: most are of partitions, which nobody reports."""

    key: Key
    statistics: str


class Listing(NamedTuple):
    """All lines of one reading.

    Attributes:
        lines: In file order.
        rejects: Lines that are no statistics of a device, for example of the 2.4 layout.
    """

    lines: tuple[Line, ...]
    rejects: int


def parse_listing(text: str) -> Listing:
    """Return the lines of /proc/diskstats; never raises."""
    lines = []
    rejects = 0
    for text_line in text.split("\n"):
        parts = text_line.split(None, _LINE_PARTS - 1)
        if not parts:
            continue
        if not _names_a_device(parts):
            rejects += 1
            continue
        lines.append(Line(Key(parts[0], parts[1], parts[2]), parts[3]))
    return Listing(tuple(lines), rejects)


def _names_a_device(parts: Sequence[str]) -> bool:
    """Return whether a line begins with major, minor and name, and has something after them.

    A number for a name is the 2.4 layout, which put the size in blocks before it.
    """
    return (
        len(parts) == _LINE_PARTS
        and parts[0].isdigit()
        and parts[1].isdigit()
        and not parts[2].isdigit()
    )


def count_fields(text: str) -> int:
    """Return how many statistics a line has."""
    return len(text.split())


def is_known_shape(fields: int) -> bool:
    """Return whether a kernel prints lines of that many statistics."""
    return fields in _KNOWN_COUNTS


def parse_statistics(text: str) -> Statistics | None:
    """Return the statistics of one line, by the count of its own fields.

    Of a count no kernel prints, the longest known prefix is taken (psutil#2148: lxcfs prints 14).

    Returns:
        None when there are fewer than any kernel prints, or one of them is no 64-bit number.
    """
    tokens = text.split()
    count = len(tokens)
    if count != _OLD_PARTITION:
        count = next((known for known in (FIELDS, 15, ALWAYS_THERE) if known <= count), 0)
    tokens = tokens[:count]
    joined = "".join(tokens)
    if not (joined.isascii() and joined.isdigit() and len(max(tokens, key=len)) <= _DIGITS):
        return None
    values: list[int | None] = [int(token) for token in tokens]
    if count == _OLD_PARTITION:
        return _spread(values)
    return (*values, *(None,) * (FIELDS - count))


def _spread(values: Sequence[int | None]) -> Statistics:
    """Return the four values of an old partition line at their places."""
    fields: list[int | None] = [None] * FIELDS
    fields[READS], fields[READ_SECTORS], fields[WRITES], fields[WRITE_SECTORS] = values
    return tuple(fields)


def count_in_flight(lines: Sequence[Statistics]) -> int | None:
    """Return the I/Os in flight over all lines; None where a line does not tell.

    The kernel counts them signed and prints them unsigned, so a huge number is a slip below zero.
    """
    counts = [line[IN_FLIGHT] for line in lines]
    known = [count for count in counts if count is not None and count < _NEGATIVE]
    return sum(known) if len(known) == len(counts) else None


def count_reads_and_writes(numbers: Sequence[str]) -> tuple[int | None, int | None]:
    """Return reads and writes in flight from the words of sysfs inflight; None for no numbers."""
    if len(numbers) != len(("reads", "writes")):
        return None, None
    reads, writes = (int(text) if _is_number(text) else None for text in numbers)
    return reads, writes


def _is_number(text: str) -> bool:
    """Return whether a word is an unsigned 32-bit number."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) < _NEGATIVE
