"""Pressure of one scope, the system or a cgroup, from poll to poll."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from collector.edges.procfs import PolledFile, explain, state_of
from collector.pressure_text import parse_cpu_stat, parse_pressure
from collector.source import State
from stallscope.clock import Instant
from stallscope.units import US_PER_SECOND

SYSTEM = "system"
_RETRY_US = 60 * US_PER_SECOND
_MOST_WINDOW_US = (1 << 32) - 1
_PRESSURE_BYTES = 4_096
_CPU_STAT_BYTES = 16_384
_OFF = "switched off, boot with psi=1"
_ABSENT = "not in this kernel (needs Linux 4.20 and CONFIG_PSI)"
_ABSENT_IN_CGROUP = "no such file, the cgroup is gone or its pressure is off"
_IRQ_ABSENT = "not in this kernel (needs Linux 6.1 and CONFIG_IRQ_TIME_ACCOUNTING)"
_RESOURCES = ("cpu", "memory", "io", "irq")
_THROTTLING = {"nr_throttled": "throttled_periods", "throttled_usec": "throttled_us"}


class OptionalFile:
    """A file that may be absent or refuse to be read; then it is asked again once a minute.

    Attributes:
        reason: Why the last read gave nothing; empty when it gave something.
        state: The same in one word.
    """

    def __init__(self, path: Path, limit: int, words: Mapping[int, str] | None = None) -> None:
        self._file = PolledFile(path, limit)
        self._words = words or {}
        self._ask_again_us = 0
        self.reason = ""
        self.state = State.WORKING

    def read(self, mono_us: int) -> str | None:
        """Return the text, or None with `reason` set.

        Args:
            mono_us: Monotonic time, for the pause after a failure.
        """
        if self.reason and mono_us < self._ask_again_us:
            return None
        try:
            text = self._file.read()
        except OSError as error:
            self.state = state_of(error)
            self.reason = self._words.get(error.errno or 0, explain(error))
            self._ask_again_us = mono_us + _RETRY_US
            return None
        self.state, self.reason = State.WORKING, ""
        return text

    def close(self) -> None:
        """Give back the descriptor."""
        self._file.close()


class _Counters(NamedTuple):
    """Numbers that only rise, and when they were read."""

    mono_us: int
    values: dict[str, int]


class _Gains(NamedTuple):
    """What counters gained in a window; empty where nothing can be said."""

    window_us: int
    values: dict[str, int]


_NO_GAINS = _Gains(0, {})


def _pressure_file(name: str, folder: Path, resource: str) -> tuple[Path, int, Mapping[int, str]]:
    """Return where a resource's pressure stands and what its failures mean."""
    system = name == SYSTEM
    absent = _ABSENT if system else _ABSENT_IN_CGROUP
    words = {errno.EOPNOTSUPP: _OFF, errno.ENOENT: absent}
    if resource == "irq":
        words = dict.fromkeys(words, _IRQ_ABSENT)
    path = folder / (resource if system else f"{resource}.pressure")
    return path, _PRESSURE_BYTES, words


def _measure_window(before_us: int | None, now_us: int) -> int | None:
    """Return the time between two polls; None where there is none that a column can hold."""
    if before_us is None or not 0 < now_us - before_us <= _MOST_WINDOW_US:
        return None
    return now_us - before_us


class PressureScope:
    """Reads the pressure files of one scope.

    Args:
        name: ``system`` or the path of a cgroup.
        folder: Where its files are.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._files = {
            resource: OptionalFile(*_pressure_file(name, folder, resource))
            for resource in _RESOURCES
        }
        self._cpu_stat = (
            None if name == SYSTEM else OptionalFile(folder / "cpu.stat", _CPU_STAT_BYTES)
        )
        self._before: dict[str, _Counters] = {}
        self._mono_us: int | None = None

    def advance(self, now: Instant) -> dict[str, object]:
        """Return the row of this poll; ratios are NULL on the first one."""
        before_us, self._mono_us = self._mono_us, now.mono_us
        row: dict[str, object] = {
            "wall_us": now.wall_us,
            "mono_us": now.mono_us,
            "scope": self.name,
            "window_us": _measure_window(before_us, now.mono_us),
        }
        notes: list[str] = []
        for resource, file in self._files.items():
            row.update(self._read_pressure(resource, file, now.mono_us, notes))
        if self._cpu_stat is not None:
            row.update(self._read_throttling(self._cpu_stat, now.mono_us, notes))
        row["reason"] = "; ".join(notes) or None
        return row

    @property
    def missing(self) -> dict[str, tuple[State, str]]:
        """Why each file that every kernel should have gave nothing; ``irq`` is optional."""
        return {
            resource: (file.state, file.reason)
            for resource, file in self._files.items()
            if file.reason and resource != "irq"
        }

    def close(self) -> None:
        """Give back all descriptors."""
        for file in self._files.values():
            file.close()
        if self._cpu_stat is not None:
            self._cpu_stat.close()

    def _read_pressure(
        self, resource: str, file: OptionalFile, mono_us: int, notes: list[str]
    ) -> dict[str, object]:
        """Return the ratios of one resource."""
        text = file.read(mono_us)
        if text is None:
            self._before.pop(resource, None)
            notes.append(f"{resource}: {file.reason}")
            return {}
        totals = parse_pressure(text)
        if not totals:
            notes.append(f"{resource}: no total in its file")
        if resource == "cpu" and self.name == SYSTEM:
            totals.pop("full", None)  # undefined there; 0 since 5.13 for compatibility (psi.rst)
        gains = self._gain(resource, totals, mono_us, notes)
        return {
            # The file is read after the clock, so a window can hold a little more than itself.
            f"{resource}_{share}_ratio": min(1.0, stalled_us / gains.window_us)
            for share, stalled_us in gains.values.items()
        }

    def _read_throttling(
        self, file: OptionalFile, mono_us: int, notes: list[str]
    ) -> dict[str, object]:
        """Return how much the cgroup was held back by its CPU limit."""
        text = file.read(mono_us)
        numbers = {} if text is None else parse_cpu_stat(text)
        counters = {
            column: numbers[name] for name, column in _THROTTLING.items() if name in numbers
        }
        if not counters:
            notes.append(f"cpu.stat: {file.reason or 'the cpu controller is off here'}")
        return dict(self._gain("cpu.stat", counters, mono_us, notes).values)

    def _gain(self, what: str, values: dict[str, int], mono_us: int, notes: list[str]) -> _Gains:
        """Return what each counter gained; nothing on the first reading.

        A counter that fell belongs to another cgroup of the same name, so there is no gain.
        """
        before = self._before.get(what)
        self._before[what] = _Counters(mono_us, values)
        window_us = _measure_window(None if before is None else before.mono_us, mono_us)
        if before is None or window_us is None:
            return _NO_GAINS
        both = before.values.keys() & values.keys()
        gains = {name: values[name] - before.values[name] for name in both}
        if any(gain < 0 for gain in gains.values()):
            notes.append(f"{what}: a counter fell, so it starts anew")
            return _NO_GAINS
        return _Gains(window_us, gains)
