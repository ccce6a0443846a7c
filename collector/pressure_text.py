"""Texts about pressure, throttling and memory to numbers. Pure; broken lines are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from collector.whole_number import parse_whole
from stallscope.units import KIB


class MemoryField(NamedTuple):
    """Where a line of /proc/meminfo goes.

    Attributes:
        column: Column of table host_pressure.
        scale: Bytes per unit; 1 for counts.
    """

    column: str
    scale: int


_MEMORY: Mapping[str, MemoryField] = {
    "MemTotal": MemoryField("memory_total_bytes", KIB),  # "kB" is KiB there
    "MemAvailable": MemoryField("memory_available_bytes", KIB),
    "Dirty": MemoryField("dirty_bytes", KIB),
    "Writeback": MemoryField("writeback_bytes", KIB),
    "Shmem": MemoryField("shmem_bytes", KIB),
    "Mlocked": MemoryField("mlocked_bytes", KIB),
    "Unevictable": MemoryField("unevictable_bytes", KIB),
    "HugePages_Total": MemoryField("hugepages_total", 1),
    "HugePages_Free": MemoryField("hugepages_free", 1),
}
MEMORY_COLUMNS = tuple(field.column for field in _MEMORY.values())


def parse_pressure(text: str) -> dict[str, int]:
    """Return stalled microseconds since boot by share, ``some`` and ``full``.

    The averages of the file are left alone: over ten seconds and more they hide a spike
    (Documentation/accounting/psi.rst).
    """
    totals = {}
    for line in text.split("\n"):
        share, _, values = line.partition(" ")
        _, found, total = values.rpartition("total=")
        number = parse_whole(total.strip())
        if share in {"some", "full"} and found and number is not None:
            totals[share] = number
    return totals


def parse_cpu_stat(text: str) -> dict[str, int]:
    """Return the numbers of a cgroup's cpu.stat by name."""
    numbers = {}
    for line in text.split("\n"):
        name, _, value = line.partition(" ")
        number = parse_whole(value.strip())
        if number is not None:
            numbers[name] = number
    return numbers


def parse_meminfo(text: str) -> dict[str, int]:
    """Return the wanted lines of /proc/meminfo by column; keys a kernel lacks are left out."""
    values = {}
    for line in text.split("\n"):
        name, _, rest = line.partition(":")
        field = _MEMORY.get(name)
        if field is None:
            continue
        number = parse_whole(rest.removesuffix("kB").strip())
        if number is not None:
            values[field.column] = number * field.scale
    return values
