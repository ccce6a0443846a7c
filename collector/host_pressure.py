"""Source host_pressure: stalls on CPU, memory and I/O, memory in use, CPU throttling.

The system, and each cgroup an engine runs in: the engine's own pressure is preferred to the
host's. Stall totals are turned into ratios of the window; see Documentation/accounting/psi.rst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from collector.edges.sysfs import exists
from collector.pressure_scope import SYSTEM, OptionalFile, PressureScope
from collector.pressure_text import MEMORY_COLUMNS, parse_meminfo
from collector.source import Machine, NoData, Reading, SourceError, State
from stallscope.units import US_PER_MS, US_PER_SECOND

_MEMINFO_BYTES = 65_536
_NEEDED_FILES = 4  # cpu, memory, io, meminfo; irq is optional


def no_cgroups() -> Iterable[str]:
    """Return no cgroup: only the system is watched."""
    return ()


class HostPressure:
    """Pressure of the machine and of the engines' cgroups.

    Args:
        machine: What may be touched.
        interval_us: Wanted pace.
        cgroups: Returns the cgroup v2 paths to watch beside the system, as in /proc/PID/cgroup;
            asked at every poll, so it must be quick.
    """

    name = "host_pressure"
    tables = ("host_pressure",)

    def __init__(
        self,
        machine: Machine,
        *,
        interval_us: int = 100 * US_PER_MS,
        cgroups: Callable[[], Iterable[str]] = no_cgroups,
    ) -> None:
        self.interval_us = interval_us
        self.deadline_us = US_PER_SECOND
        self._machine = machine
        self._cgroups = cgroups
        self._system = PressureScope(SYSTEM, machine.proc / "pressure")
        self._meminfo = OptionalFile(machine.proc / "meminfo", _MEMINFO_BYTES)
        self._scopes: dict[str, PressureScope] = {}

    def read(self) -> Reading | NoData:
        """Return a row for the system and one per cgroup.

        Returns:
            NoData where neither pressure nor memory can be read.

        Raises:
            SourceError: They cannot be read, and not because of kernel or permission.
        """
        now = self._machine.clock.now()
        system = self._system.advance(now)
        missing = dict(self._system.missing)
        memory = self._read_memory(now.mono_us)
        system.update(memory)
        if self._meminfo.reason:
            missing["meminfo"] = (self._meminfo.state, self._meminfo.reason)
        if len(missing) == _NEEDED_FILES:
            return _explain_absence(missing)
        system["reason"] = _join(system["reason"], _name_missing(memory, self._meminfo.reason))
        problems = [f"{what}: {why}" for what, (_, why) in missing.items()]
        problems.extend(self._follow_cgroups())
        rows = [system, *(scope.advance(now) for scope in self._scopes.values())]
        return Reading({self.name: rows}, reason="; ".join(problems))

    def close(self) -> None:
        """Give back all descriptors."""
        self._system.close()
        self._meminfo.close()
        for scope in self._scopes.values():
            scope.close()

    def _read_memory(self, mono_us: int) -> dict[str, int]:
        """Return the memory columns that this kernel has."""
        text = self._meminfo.read(mono_us)
        return {} if text is None else parse_meminfo(text)

    def _follow_cgroups(self) -> list[str]:
        """Open and close scopes as cgroups come and go; return what is wrong with them."""
        paths = sorted({path for path in self._cgroups() if path != "/"})
        root = _find_hierarchy(self._machine.sys) if paths else None
        wanted = [path for path in paths if _is_inside(path)] if root else []
        for path in set(self._scopes) - set(wanted):
            self._scopes.pop(path).close()
        for path in wanted:
            if root is not None and path not in self._scopes:
                self._scopes[path] = PressureScope(path, root / path.lstrip("/"))
        if paths and root is None:
            return ["cgroups: no cgroup v2 hierarchy under /sys/fs/cgroup"]
        return [
            f"cgroup {path}: outside of what is mounted here"
            for path in paths
            if path not in self._scopes
        ]


def _find_hierarchy(sys: Path) -> Path | None:
    """Return the root of cgroup v2, which hybrid machines mount beside v1."""
    for folder in (sys / "fs/cgroup", sys / "fs/cgroup/unified"):
        if exists(folder / "cgroup.controllers"):
            return folder
    return None


def _is_inside(path: str) -> bool:
    """Return whether a cgroup path lies under the root; ``/../x`` is of another namespace."""
    return path.startswith("/") and ".." not in PurePosixPath(path).parts


def _name_missing(memory: dict[str, int], reason: str) -> str | None:
    """Return which memory columns are NULL and why."""
    if reason:
        return f"meminfo: {reason}"
    absent = [column for column in MEMORY_COLUMNS if column not in memory]
    return f"not in meminfo: {', '.join(absent)}" if absent else None


def _join(*parts: object) -> str | None:
    """Return the reasons that there are, as one."""
    return "; ".join(str(part) for part in parts if part) or None


def _explain_absence(missing: dict[str, tuple[State, str]]) -> NoData:
    """Return why nothing at all can be read.

    Raises:
        SourceError: Neither the kernel nor a permission is the reason.
    """
    states = {state for state, _ in missing.values()}
    reason = "; ".join(f"{what}: {why}" for what, (_, why) in missing.items())
    if State.RESTRICTED in states:
        return NoData(State.RESTRICTED, reason)
    if states == {State.UNSUPPORTED}:
        return NoData(State.UNSUPPORTED, reason)
    raise SourceError(reason)
