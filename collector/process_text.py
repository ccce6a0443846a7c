"""Texts of /proc/PID to numbers. Pure; what cannot be read is None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from collector.whole_number import parse_whole
from stallscope.units import KIB

_START_TICKS = 22  # numbers of fields as in proc_pid_stat(5), counted from 1
_PARENT = 4
_STATE = 3  # the first field after the command
_MOST_CPUS = 65_536


class ProcessStat(NamedTuple):
    """Who a process is.

    Attributes:
        thread: Name of its main thread (comm), at most 15 characters.
        parent: Process id of its parent.
        start_ticks: Start time in ticks since boot; with the pid it names a process for good.
    """

    thread: str
    parent: int
    start_ticks: int


class ProcessStatus(NamedTuple):
    """Lines of /proc/PID/status; None where the kernel has no such line."""

    threads: int | None
    locked_bytes: int | None
    rss_anon_bytes: int | None
    rss_shmem_bytes: int | None
    cpus_allowed: str | None
    mems_allowed: str | None
    voluntary_switches: int | None
    forced_switches: int | None


class RunTime(NamedTuple):
    """A thread's schedstat (Documentation/scheduler/sched-stats.rst).

    Attributes:
        run_ns: Time on a CPU.
        delay_ns: Time runnable and waiting for a CPU.
        slices: How often it got one.
    """

    run_ns: int
    delay_ns: int
    slices: int


def parse_stat(text: str) -> ProcessStat | None:
    """Return the identity in /proc/PID/stat; the command in it may hold blanks and brackets."""
    start, end = text.find("("), text.rfind(")")
    fields = text[end + 1 :].split()
    if start < 0 or end < start or len(fields) <= _START_TICKS - _STATE:
        return None
    parent = parse_whole(fields[_PARENT - _STATE])
    ticks = parse_whole(fields[_START_TICKS - _STATE])
    if parent is None or ticks is None:
        return None
    return ProcessStat(text[start + 1 : end], parent, ticks)


def parse_schedstat(text: str) -> RunTime | None:
    """Return the three numbers of /proc/PID/task/TID/schedstat."""
    numbers = [parse_whole(word) for word in text.split()[:3]]
    known = [number for number in numbers if number is not None]
    return RunTime(*known) if len(known) == len(RunTime._fields) else None


def parse_status(text: str) -> ProcessStatus:
    """Return the wanted lines of /proc/PID/status."""
    values = dict(_split_lines(text))
    return ProcessStatus(
        threads=parse_whole(values.get("Threads", "")),
        locked_bytes=_parse_kib(values, "VmLck"),
        rss_anon_bytes=_parse_kib(values, "RssAnon"),
        rss_shmem_bytes=_parse_kib(values, "RssShmem"),
        cpus_allowed=values.get("Cpus_allowed_list") or None,
        mems_allowed=values.get("Mems_allowed_list") or None,
        voluntary_switches=parse_whole(values.get("voluntary_ctxt_switches", "")),
        forced_switches=parse_whole(values.get("nonvoluntary_ctxt_switches", "")),
    )


def parse_cgroup(text: str) -> str | None:
    """Return the cgroup v2 path in /proc/PID/cgroup, the line of hierarchy 0."""
    for line in text.split("\n"):
        if line.startswith("0::/"):
            return line.removeprefix("0::")
    return None


def parse_cpu_list(text: str) -> frozenset[int]:
    """Return the numbers of a list such as ``0-3,8``; broken parts are left out."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        begin, end = parse_whole(first), parse_whole(last or first)
        if begin is not None and end is not None and end < _MOST_CPUS:
            numbers.update(range(begin, end + 1))
    return frozenset(numbers)


def _split_lines(text: str) -> list[tuple[str, str]]:
    """Return name and value of each line."""
    pairs = (line.partition(":") for line in text.split("\n"))
    return [(name, value.strip()) for name, _, value in pairs]


def _parse_kib(values: Mapping[str, str], name: str) -> int | None:
    """Return a size as bytes; "kB" is KiB there."""
    number = parse_whole(values.get(name, "").removesuffix("kB").strip())
    return None if number is None else number * KIB
