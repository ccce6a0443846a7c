"""One disk from poll to poll: which of its lines count, and what happened since the poll before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from collector.disk_inventory import Disk
from collector.disk_rates import Gap, add_up, has_moved, measure, subtract
from collector.diskstats import Key, Statistics, count_in_flight, count_reads_and_writes
from collector.edges.procfs import PolledFile
from stallscope.clock import Instant

_IN_FLIGHT_BYTES = 256
_MOST_WINDOW_US = (1 << 32) - 1  # what the column can hold, 71 minutes


class _Sample(NamedTuple):
    """All lines of the disk at one poll."""

    mono_us: int
    lines: dict[Key, Statistics]


class DiskSeries:
    """The readings of one disk under one device id.

    Args:
        disk: What it is.
        device: Its device id.
        newcomer: Why its first row has no deltas.
    """

    def __init__(self, disk: Disk, device: int, newcomer: Gap) -> None:
        self.disk = disk
        self.device = device
        self._newcomer = newcomer
        self._before = _Sample(0, {})
        self._head_moves = False
        self._inflight = PolledFile(disk.inflight, _IN_FLIGHT_BYTES)

    def advance(self, now: Instant, lines: Mapping[Key, Statistics]) -> dict[str, object] | None:
        """Return the row of this poll; None when a line that counts could not be read.

        Args:
            now: When the lines were read.
            lines: Statistics of this poll.
        """
        chosen = self._choose(lines)
        if not chosen or any(key not in lines for key in chosen):
            return None
        window_us = now.mono_us - self._before.mono_us
        deltas = self._subtract(chosen, lines, window_us)
        own = {key: lines[key] for key in self.disk.keys if key in lines}
        self._before = _Sample(now.mono_us, own)
        row = self._stamp(now)
        row.update(measure(deltas, window_us) if not isinstance(deltas, Gap) else _gap(deltas))
        row["in_flight"] = count_in_flight([lines[key] for key in chosen])
        if self.disk.head in chosen:
            row["in_flight_read"], row["in_flight_write"] = self._read_in_flight()
        return row

    def end(self, now: Instant) -> dict[str, object]:
        """Return the last row of a disk that is gone, and give back what the series holds."""
        self.close()
        return {**self._stamp(now), **_gap(Gap.GONE)}

    def close(self) -> None:
        """Give back the descriptor."""
        self._inflight.close()

    def _choose(self, lines: Mapping[Key, Statistics]) -> tuple[Key, ...]:
        """Return the lines that count: the head if it ever moved, else all of its paths.

        Old kernels count a multipath namespace on its paths only and leave the head at zero
        (netdata#5744), newer ones on both: head and paths are never added (atop#47, fio#1890).
        """
        head, paths = self.disk.head, self.disk.paths
        if head is None or not paths:
            return self.disk.keys
        self._head_moves = self._head_moves or (head in lines and has_moved(lines[head]))
        return (head,) if self._head_moves else paths

    def _subtract(
        self, chosen: tuple[Key, ...], lines: Mapping[Key, Statistics], window_us: int
    ) -> Statistics | Gap:
        """Return the gains of the lines that count; a gap in one of them is a gap in all."""
        if window_us > _MOST_WINDOW_US and self._before.lines:
            return Gap.NO_TIME
        parts = []
        for key in chosen:
            before = self._before.lines.get(key)
            part = subtract(before, lines[key], window_us) if before else self._newcomer
            if isinstance(part, Gap):
                return part
            parts.append(part)
        deltas = add_up(parts)
        return Gap.DISABLED if self.disk.frozen and not has_moved(deltas) else deltas

    def _read_in_flight(self) -> tuple[int | None, int | None]:
        """Return reads and writes in flight; None where sysfs does not tell."""
        try:
            numbers = self._inflight.read().split()
        except OSError:
            return None, None
        return count_reads_and_writes(numbers)

    def _stamp(self, now: Instant) -> dict[str, object]:
        return {"wall_us": now.wall_us, "mono_us": now.mono_us, "device": self.device}


def _gap(why: Gap) -> dict[str, object]:
    """Return the columns of a row without deltas."""
    return {"window_us": None, "io_stuck_candidate": False, "gap_reason": why.value}
