"""Source block_device: what each disk did, how long it took and how much waits on it.

/proc/diskstats is read once per poll; what a disk is comes from sysfs and is kept until the list
of devices changes, a counter falls or a minute passes. There is no distribution in these counters:
all times are means of the window (node_exporter#1508).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from collector.disk_inventory import Disk, find_disks
from collector.disk_rates import Gap
from collector.disk_series import DiskSeries
from collector.diskstats import (
    Key,
    Line,
    Listing,
    Statistics,
    count_fields,
    is_known_shape,
    parse_listing,
    parse_statistics,
)
from collector.edges.procfs import PolledFile, explain, state_of
from collector.edges.sysfs import exists, list_names
from collector.source import Machine, NoData, Reading, Row, State
from stallscope.clock import Instant
from stallscope.units import US_PER_MS, US_PER_SECOND

_LOG = logging.getLogger("stallscope.collect")
_REFRESH_US = 60 * US_PER_SECOND
_SUSPICIOUS = frozenset({Gap.COUNTER_FELL.value, Gap.IMPLAUSIBLE.value})


class BlockDevice:
    """Disks of the machine.

    Args:
        machine: What may be touched.
        interval_us: Wanted pace.
        include_virtual: Report loop, ram, zram, sr, nbd and fd devices as well.
    """

    name = "block_device"
    tables = ("block_device",)

    def __init__(
        self,
        machine: Machine,
        *,
        interval_us: int = 100 * US_PER_MS,
        include_virtual: bool = False,
    ) -> None:
        self.interval_us = interval_us
        self.deadline_us = US_PER_SECOND
        self._machine = machine
        self._include_virtual = include_virtual
        self._file = PolledFile(machine.proc / "diskstats")
        self._series: dict[str, DiskSeries] = {}
        self._wanted: frozenset[Key] = frozenset()
        self._keys: tuple[Key, ...] = ()
        self._refreshed_us: int | None = None
        self._has_sysfs = True
        self._shapes: set[int] = set()

    def read(self) -> Reading | NoData:
        """Return a row per disk.

        Returns:
            NoData where the kernel shows no disk statistics, hides them, or has no disk.
        """
        try:
            text = self._file.read()
        except OSError as error:
            return NoData(state_of(error), f"/proc/diskstats: {explain(error)}")
        now = self._machine.clock.now()
        listing = parse_listing(text)
        if not listing.lines and not self._series:
            return self._explain_emptiness(listing.rejects)
        farewells = self._refresh(listing, now) if self._is_stale(listing, now) else []
        lines, refused = self._parse(listing.lines)
        rows = self._advance(lines, now, {})
        if any(row.get("gap_reason") in _SUSPICIOUS for row in rows.values()):
            # It may be another device by now (sysstat#355): look, then ask new series only.
            farewells = [*farewells, *self._refresh(listing, now)]
            rows = self._advance(lines, now, rows)
        return self._conclude(rows, farewells, listing.rejects + refused)

    def close(self) -> None:
        """Give back all descriptors."""
        self._file.close()
        for series in self._series.values():
            series.close()

    def _advance(
        self, lines: Mapping[Key, Statistics], now: Instant, done: Mapping[DiskSeries, Row]
    ) -> dict[DiskSeries, Row]:
        """Return the row of each disk, those that are done already as they are."""
        rows = {}
        for series in self._series.values():
            row = done.get(series) or series.advance(now, lines)
            if row is not None:
                rows[series] = row
        return rows

    def _conclude(
        self, rows: Mapping[DiskSeries, Row], farewells: list[Row], refused: int
    ) -> Reading | NoData:
        """Return the outcome of a poll."""
        if not self._series and not farewells:
            return NoData(State.NOT_APPLICABLE, "this machine has no disk of its own")
        gaps = {series: row.get("gap_reason") for series, row in rows.items()}
        frozen = [series.disk.kernel_name for series, gap in gaps.items() if gap == Gap.DISABLED]
        if frozen and len(frozen) == len(rows) and not farewells:
            return NoData(State.DISABLED, "queue/iostats is 0 on every disk: write 1 to count")
        rejects = refused + sum(gap == Gap.IMPLAUSIBLE for gap in gaps.values())
        parts = [] if self._has_sysfs else ["no /sys/block here: disks are known by name only"]
        if frozen:
            parts.append(f"queue/iostats is 0 on {', '.join(frozen)}")
        if rejects:
            parts.append(f"{rejects} lines of /proc/diskstats refused or implausible")
        return Reading({self.name: [*farewells, *rows.values()]}, rejects, "; ".join(parts))

    def _parse(self, lines: Iterable[Line]) -> tuple[dict[Key, Statistics], int]:
        """Return the statistics of the lines that count, and how many could not be read."""
        parsed = {}
        refused = 0
        for key, text in lines:
            if key not in self._wanted:
                continue
            statistics = parse_statistics(text)
            if statistics is None:
                refused += 1
            else:
                parsed[key] = statistics
        return parsed, refused

    def _is_stale(self, listing: Listing, now: Instant) -> bool:
        """Return whether the disks must be looked up again."""
        if self._refreshed_us is None or now.mono_us - self._refreshed_us >= _REFRESH_US:
            return True
        return self._keys != tuple(line.key for line in listing.lines)

    def _refresh(self, listing: Listing, now: Instant) -> list[Row]:
        """Look up all disks and return the last rows of those that are gone."""
        self._tell_shapes(listing.lines)
        self._keys = tuple(line.key for line in listing.lines)
        disks = find_disks(self._keys, self._machine.sys, include_virtual=self._include_virtual)
        before = self._series
        self._series = {disk.kernel_name: self._follow(disk, before) for disk in disks}
        self._wanted = frozenset(key for disk in disks for key in disk.keys)
        self._refreshed_us = now.mono_us
        self._has_sysfs = exists(self._machine.sys / "block")
        return self._end(before, now)

    def _follow(self, disk: Disk, before: dict[str, DiskSeries]) -> DiskSeries:
        """Return the series a disk goes on with: the one it had, unless it is another disk now."""
        device = self._machine.names.device(disk.facts)
        known = before.get(disk.kernel_name)
        if known is None:
            return DiskSeries(disk, device, Gap.FIRST_READ)
        if known.disk.identity != disk.identity:
            return DiskSeries(disk, device, Gap.IDENTITY_CHANGED)
        known.disk = disk
        return known

    def _end(self, before: dict[str, DiskSeries], now: Instant) -> list[Row]:
        """Close series that go on no longer; those whose device is gone leave a last row."""
        kept = set(map(id, self._series.values()))
        devices = {series.device for series in self._series.values()}
        rows: list[Row] = []
        for series in before.values():
            if id(series) in kept:
                continue
            if series.device in devices:
                series.close()
            else:
                rows.append(series.end(now))
        return rows

    def _tell_shapes(self, lines: Iterable[Line]) -> None:
        """Log once for each count of statistics that no kernel prints (psutil#2148)."""
        counts = {count_fields(line.statistics) for line in lines}
        for count in sorted(counts - self._shapes):
            if not is_known_shape(count):
                _LOG.warning("diskstats: lines with %d statistics, reading the known ones", count)
        self._shapes |= counts

    def _explain_emptiness(self, rejects: int) -> NoData:
        """Return why no line names a device: there is none, it is hidden, or we cannot read it."""
        if rejects:
            return NoData(State.UNSUPPORTED, f"all {rejects} lines of /proc/diskstats refused")
        folder = self._machine.sys / "block"
        if exists(folder) and not list_names(folder):
            return NoData(State.NOT_APPLICABLE, "this machine has no block device")
        return NoData(
            State.RESTRICTED, "/proc/diskstats is empty here: give the container the host's /proc"
        )
