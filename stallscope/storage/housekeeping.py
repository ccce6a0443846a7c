"""Merging, dropping and checking, in the background and a little at a time."""

from __future__ import annotations

import errno
import logging
from dataclasses import dataclass, field

from stallscope.clock import Clock
from stallscope.errors import SegmentError
from stallscope.storage.compaction import Job, compact, find_jobs
from stallscope.storage.graveyard import Graveyard
from stallscope.storage.layout import Layout
from stallscope.storage.manifest import Entry, ManifestWriter
from stallscope.storage.quarantine import (
    damage_of,
    may_pass,
    obviously_damaged,
    set_aside_segment,
)
from stallscope.storage.retention import Limits, expired
from stallscope.units import US_PER_SECOND

_LOG = logging.getLogger(__name__)
_SCRUB_BYTES = 16 << 20
_SETTLING_US = 900 * US_PER_SECOND


@dataclass(slots=True)
class Housekeeping:
    """Keeps the segments of one writer few, whole and within limits.

    Attributes:
        finding: The last damage found, for people; empty while there was none.
        quarantined: Segments set aside since the start.
    """

    layout: Layout
    manifest: ManifestWriter
    writer: str
    clock: Clock
    limits: Limits
    grace_s: float
    sync: bool
    finding: str = ""
    quarantined: int = 0
    _graveyard: Graveyard = field(init=False)
    _wall_minus_mono_us: int = field(init=False)
    _started_mono_us: int = field(init=False)
    _scrub_from: str = ""
    _unreadable: str = ""

    def __post_init__(self) -> None:
        """Bury what a process that was killed left behind."""
        self._graveyard = Graveyard(self.clock, self.grace_s)
        now = self.clock.now()
        self._wall_minus_mono_us = now.wall_us - now.mono_us
        self._started_mono_us = now.mono_us
        known = {entry.file for entry in self.manifest.entries()}
        for path in self.layout.segments.glob(f"*/{self.writer}-[0-9]*"):
            if str(path.relative_to(self.layout.segments)) not in known:
                self._graveyard.bury(path)

    def round(self) -> None:
        """Do what is due.

        Raises:
            OSError: The disk refused, or a segment cannot be read now; nothing was lost and it is
                tried again.
        """
        self._unreadable = ""
        if self.manifest.heal():
            self._find(f"manifest/{self.writer}.jsonl was damaged; it was written anew")
        self._quarantine_obvious()
        self._merge()
        self._drop()
        self._scrub()
        counting = {self.layout.segments / entry.file for entry in self.manifest.entries()}
        self._graveyard.clear(in_use=counting)
        if self._unreadable:
            raise OSError(errno.EAGAIN, f"{self._unreadable}; it is kept and tried again")

    def _merge(self) -> None:
        """Merge all closed windows, finest first."""
        for job in find_jobs(self.manifest.entries(), self.clock.now().wall_us):
            try:
                removed = compact(self.layout, self.manifest, self.writer, job, sync=self.sync)
            except SegmentError:
                self._quarantine_parts(job)
            except OSError:
                raise
            except Exception as error:  # noqa: BLE001 - one window must not stop retention for all
                self._find(f"a window of {job.table.name} cannot be merged: {error}")
            else:
                self._graveyard.bury(*(self.layout.segments / file for file in removed))

    def _quarantine_parts(self, job: Job) -> None:
        """Set the damaged parts of a job aside; the others are merged in the next round."""
        for part in job.parts:
            self._set_aside(part, damage_of(self.layout, part))

    def _quarantine_obvious(self) -> None:
        """Set aside what is missing or has another size than was sealed."""
        for entry in self.manifest.entries():
            self._set_aside(entry, obviously_damaged(self.layout, entry))

    def _set_aside(self, entry: Entry, reason: str) -> None:
        """Quarantine a segment if there is a reason to that will not pass by itself."""
        if not reason:
            return
        if may_pass(self.layout, entry):
            self._unreadable = reason
            return
        set_aside_segment(self.layout, self.manifest, entry, reason, self.clock)
        self.quarantined += 1
        self._find(f"{reason}; it is in quarantine, {entry.rows} rows of {entry.table} are lost")

    def _find(self, finding: str) -> None:
        """Remember a finding and tell it once."""
        if finding != self.finding:
            _LOG.error("%s", finding)
        self.finding = finding

    def _drop(self) -> None:
        """Drop what is past its retention."""
        old = expired(self.manifest.entries(), self.limits, self._least_wall_us())
        if old:
            self.manifest.commit(remove=[entry.file for entry in old])
            self._graveyard.bury(*(self.layout.segments / entry.file for entry in old))

    def _least_wall_us(self) -> int:
        """Return the earliest time it can be: no wrong clock may empty the lake.

        A clock that stepped ahead since the start is not believed, one that was set back is, and
        for the first quarter of an hour, in which a wrong clock is mostly set right, none is.
        """
        now = self.clock.now()
        if now.mono_us - self._started_mono_us < _SETTLING_US:
            return 0
        return min(now.wall_us, self._wall_minus_mono_us + now.mono_us)

    def _scrub(self) -> None:
        """Compare some segments with their digests, going round through all of them."""
        entries = sorted(self.manifest.entries(), key=lambda entry: entry.file)
        following = [entry for entry in entries if entry.file > self._scrub_from]
        budget = _SCRUB_BYTES
        for entry in following:
            if budget <= 0:
                return
            budget -= entry.bytes
            self._scrub_from = entry.file
            self._set_aside(entry, damage_of(self.layout, entry))
        self._scrub_from = ""
