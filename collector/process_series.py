"""One process of an engine from poll to poll: run delay of its main thread, placement, memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from collector.edges.procfs import PolledFile, explain, state_of
from collector.edges.sysfs import exists
from collector.process_text import (
    ProcessStat,
    ProcessStatus,
    RunTime,
    parse_schedstat,
    parse_status,
)
from collector.source import State
from stallscope.clock import Instant
from stallscope.units import NS_PER_US

_FILE_BYTES = 65_536
_MOST_WINDOW_US = (1 << 32) - 1
_ACCOUNTING_OFF = "run delay: the kernel does not count it (CONFIG_SCHED_INFO)"
_NO_STATUS = ProcessStatus(None, None, None, None, None, None, None, None)

FindNodes = Callable[[str | None], str | None]
"""Returns the NUMA nodes of a CPU list as a list, None when unknown."""


class ProcessGoneError(Exception):
    """The process ended."""


class _Sample(NamedTuple):
    """What rose since the poll before."""

    mono_us: int
    run_time: RunTime | None
    status: ProcessStatus


class ProcessSeries:
    """Readings of one process, by descriptors that stay with it even when its pid is given again.

    Args:
        proc: Root of the proc file system.
        pid: Process id.
        stat: Who it is.
        cgroup: Its cgroup v2 path, where there is one.
    """

    def __init__(self, proc: Path, pid: int, stat: ProcessStat, cgroup: str | None) -> None:
        self.pid = pid
        self.stat = stat
        self.cgroup = cgroup
        folder = proc / str(pid)
        # The folder of the thread: /proc/PID/schedstat is the same, but says so less clearly.
        self._schedstat = PolledFile(folder / "task" / str(pid) / "schedstat", _FILE_BYTES)
        self._status = PolledFile(folder / "status", _FILE_BYTES)
        self._before: _Sample | None = None

    def advance(self, now: Instant, engine: int | None, find_nodes: FindNodes) -> dict[str, object]:
        """Return the row of this poll.

        Args:
            now: When.
            engine: Engine id, where known.
            find_nodes: Knows the machine's NUMA nodes.

        Raises:
            ProcessGoneError: It ended.
        """
        notes: list[str] = []
        schedstat = self._read(self._schedstat, "schedstat", notes)
        status_text = self._read(self._status, "status", notes)
        run_time = _count_run_time(schedstat, notes)
        status = _NO_STATUS if status_text is None else parse_status(status_text)
        before, self._before = self._before, _Sample(now.mono_us, run_time, status)
        row: dict[str, object] = {
            "wall_us": now.wall_us,
            "mono_us": now.mono_us,
            "engine": engine,
            "pid": self.pid,
            "start_ticks": self.stat.start_ticks,
            "thread": self.stat.thread,
            "window_us": None,
            **_describe_status(status),
            "numa_nodes": find_nodes(status.cpus_allowed),
            "reason": "; ".join(notes) or None,
        }
        if before is not None:
            row.update(_compare(before, self._before))
        return row

    def close(self) -> None:
        """Give back all descriptors."""
        self._schedstat.close()
        self._status.close()

    def _read(self, file: PolledFile, what: str, notes: list[str]) -> str | None:
        """Return the text of one file; None with a note when only this file is missing."""
        try:
            return file.read()
        except OSError as error:
            if state_of(error) == State.GONE or not _is_alive(file):
                raise ProcessGoneError(str(self.pid)) from error
            notes.append(f"{what}: {explain(error)}")
            return None


def _is_alive(file: PolledFile) -> bool:
    """Return whether the folder of the file's process is still there."""
    return exists(file.path.parent)


def _count_run_time(text: str | None, notes: list[str]) -> RunTime | None:
    """Return a schedstat; three zeros mean that the kernel does not count (fs/proc/base.c)."""
    if text is None:
        return None
    run_time = parse_schedstat(text)
    if run_time is None or not any(run_time):
        notes.append(_ACCOUNTING_OFF)
        return None
    return run_time


def _describe_status(status: ProcessStatus) -> dict[str, object]:
    """Return the columns that stand in the status as they are."""
    return {
        "threads": status.threads,
        "locked_bytes": status.locked_bytes,
        "rss_anon_bytes": status.rss_anon_bytes,
        "rss_shmem_bytes": status.rss_shmem_bytes,
        "cpus_allowed": status.cpus_allowed,
        "mems_allowed": status.mems_allowed,
    }


def _compare(before: _Sample, now: _Sample) -> dict[str, object]:
    """Return the columns that cover the window; none when it has no usable length."""
    window_us = now.mono_us - before.mono_us
    if not 0 < window_us <= _MOST_WINDOW_US:
        return {}
    columns: dict[str, object] = {
        "window_us": window_us,
        "voluntary_switches": _gain(
            before.status.voluntary_switches, now.status.voluntary_switches
        ),
        "forced_switches": _gain(before.status.forced_switches, now.status.forced_switches),
    }
    if before.run_time is not None and now.run_time is not None:
        columns["run_ratio"] = _share(before.run_time.run_ns, now.run_time.run_ns, window_us)
        columns["run_delay_ratio"] = _share(
            before.run_time.delay_ns, now.run_time.delay_ns, window_us
        )
    return columns


def _gain(before: int | None, now: int | None) -> int | None:
    """Return what a counter gained; None when it is absent or fell."""
    return None if before is None or now is None or now < before else now - before


def _share(before_ns: int, now_ns: int, window_us: int) -> float | None:
    """Return time gained as a share of the window.

    Not cut at 1: delay is booked when the thread gets the CPU, so one window can hold the wait of
    several, and their sum must stay right.
    """
    gained_ns = _gain(before_ns, now_ns)
    return None if gained_ns is None else gained_ns / (window_us * NS_PER_US)
