"""Source engine_process: the processes of inference engines on this machine.

For each: how long its main thread waited for a CPU, which CPUs and NUMA nodes it may use, what
memory it holds. Engines are found by the names of their programs; nothing of a command is kept.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable
from typing import NamedTuple

from collector.edges.procfs import explain, list_processes, read_beginning, read_text, state_of
from collector.edges.sysfs import list_names, read_attribute
from collector.engine_commands import is_spawned_child, recognise_engine, split_command
from collector.process_series import ProcessGoneError, ProcessSeries
from collector.process_text import ProcessStat, parse_cgroup, parse_cpu_list, parse_stat
from collector.source import Machine, NoData, Reading, Row, State
from stallscope.units import US_PER_SECOND

_LOG = logging.getLogger("stallscope.collect")
_SCAN_US = 10 * US_PER_SECOND
_COMMAND_BYTES = 4_096
_FILE_BYTES = 65_536
_NODE = re.compile(r"node(\d+)")

FindEngine = Callable[[int], int | None]
"""Returns the engine id of a process id, None when it is not known."""


class _Found(NamedTuple):
    """A process that belongs to an engine."""

    pid: int
    stat: ProcessStat
    kind: str


class _Scan(NamedTuple):
    """All engine processes of the machine, and how many processes could not be looked at."""

    found: tuple[_Found, ...]
    processes: int
    unreadable: int


def match_no_engine(pid: int) -> int | None:
    """Return no engine id: processes are reported without one."""
    del pid
    return None


class EngineProcess:
    """Processes of the engines.

    Args:
        machine: What may be touched.
        interval_us: Wanted pace of readings; processes are looked for every ten seconds.
        find_engine: Returns the engine id of a process.
    """

    name = "engine_process"
    tables = ("engine_process",)

    def __init__(
        self,
        machine: Machine,
        *,
        interval_us: int = US_PER_SECOND,
        find_engine: FindEngine = match_no_engine,
    ) -> None:
        self.interval_us = interval_us
        self.deadline_us = 5 * US_PER_SECOND
        self._machine = machine
        self._find_engine = find_engine
        self._series: dict[tuple[int, int], ProcessSeries] = {}
        self._cgroups: tuple[str, ...] = ()
        self._processes: tuple[tuple[int, str], ...] = ()
        self._nodes: tuple[tuple[int, frozenset[int]], ...] = ()
        self._scan = _Scan((), 0, 0)
        self._scanned_us: int | None = None

    def read(self) -> Reading | NoData:
        """Return a row per engine process.

        Returns:
            NoData where no engine runs, or processes are hidden from us.
        """
        now = self._machine.clock.now()
        if self._scanned_us is None or now.mono_us - self._scanned_us >= _SCAN_US:
            try:
                self._refresh()
            except OSError as error:
                return NoData(state_of(error), f"/proc: {explain(error)}")
            self._scanned_us = now.mono_us
        rows: list[Row] = []
        for identity, series in list(self._series.items()):
            try:
                rows.append(series.advance(now, self._find_engine(series.pid), self._find_nodes))
            except ProcessGoneError:
                self._series.pop(identity).close()
        return self._conclude(rows)

    def engine_cgroups(self) -> tuple[str, ...]:
        """Return the cgroup v2 paths that engine processes run in. Safe from any thread."""
        return self._cgroups

    def engine_processes(self) -> tuple[tuple[int, str], ...]:
        """Return process id and name of the main thread of each. Safe from any thread."""
        return self._processes

    def close(self) -> None:
        """Give back all descriptors."""
        for series in self._series.values():
            series.close()

    def _conclude(self, rows: list[Row]) -> Reading | NoData:
        """Return the outcome of a poll."""
        hidden = f"{self._scan.unreadable} of {self._scan.processes} unreadable"
        if not rows:
            text = f"no engine among {self._scan.processes} processes"
            if not self._scan.unreadable:
                return NoData(State.NOT_FOUND, f"{text}; a container must share the host's pids")
            return NoData(State.RESTRICTED, f"{text}, {hidden}")
        reasons = {str(row["reason"]) for row in rows if row["reason"]}
        if self._scan.unreadable:
            reasons.add(f"processes: {hidden}")
        return Reading({self.name: rows}, reason="; ".join(sorted(reasons)))

    def _refresh(self) -> None:
        """Look for engine processes anew; those that are known go on."""
        self._scan = self._find_processes()
        self._nodes = self._read_nodes()
        before = self._series
        self._series = {}
        for found in self._scan.found:
            identity = (found.pid, found.stat.start_ticks)
            series = before.pop(identity, None) or self._open(found)
            series.stat = found.stat  # an engine gives its main thread a name after its start
            self._series[identity] = series
        for series in before.values():
            series.close()
        paths = {series.cgroup for series in self._series.values() if series.cgroup is not None}
        self._cgroups = tuple(sorted(paths))
        self._processes = tuple((found.pid, found.stat.thread) for found in self._scan.found)

    def _open(self, found: _Found) -> ProcessSeries:
        """Return a new series for a process."""
        proc = self._machine.proc
        try:
            cgroup = parse_cgroup(read_text(proc / str(found.pid) / "cgroup", _FILE_BYTES))
        except OSError:
            cgroup = None
        _LOG.info("found %s process %d (%s)", found.kind, found.pid, found.stat.thread)
        return ProcessSeries(proc, found.pid, found.stat, cgroup)

    def _find_processes(self) -> _Scan:
        """Look at the command of every process.

        Raises:
            OSError: Processes cannot be listed.
        """
        kinds: dict[int, str] = {}
        children: list[int] = []
        unreadable = 0
        pids = list_processes(self._machine.proc)
        for pid in pids:
            try:
                command = split_command(
                    read_beginning(self._machine.proc / str(pid) / "cmdline", _COMMAND_BYTES)
                )
            except OSError as error:
                unreadable += error.errno in {errno.EACCES, errno.EPERM}
                continue
            kind = recognise_engine(command)
            if kind is not None:
                kinds[pid] = kind
            elif is_spawned_child(command):
                children.append(pid)
        found = self._identify(kinds, children)
        return _Scan(tuple(found), len(pids), unreadable)

    def _identify(self, kinds: dict[int, str], children: list[int]) -> list[_Found]:
        """Return the engine processes, spawned children of engines among them."""
        found = []
        for pid in [*kinds, *sorted(children)]:
            stat = self._read_stat(pid)
            if stat is None:
                continue
            kind = kinds.get(pid) or kinds.get(stat.parent)
            if kind is not None:
                kinds[pid] = kind
                found.append(_Found(pid, stat, kind))
        return found

    def _read_stat(self, pid: int) -> ProcessStat | None:
        """Return who a process is; None when it ended meanwhile."""
        try:
            return parse_stat(read_text(self._machine.proc / str(pid) / "stat", _FILE_BYTES))
        except OSError:
            return None

    def _read_nodes(self) -> tuple[tuple[int, frozenset[int]], ...]:
        """Return the NUMA nodes and their CPUs; one without CPUs (GPU memory) never matches."""
        folder = self._machine.sys / "devices/system/node"
        nodes = []
        for name in list_names(folder):
            match = _NODE.fullmatch(name)
            cpus = parse_cpu_list(read_attribute(folder / name / "cpulist") or "")
            if match is not None:
                nodes.append((int(match[1]), cpus))
        return tuple(sorted(nodes, key=lambda node: node[0]))

    def _find_nodes(self, cpus_allowed: str | None) -> str | None:
        """Return the nodes a CPU list touches, as a list; None when either side is unknown."""
        if cpus_allowed is None or not self._nodes:
            return None
        cpus = parse_cpu_list(cpus_allowed)
        return ",".join(str(node) for node, own in self._nodes if own & cpus) or None
