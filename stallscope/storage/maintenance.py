"""What a person does to a lake: verify it, merge it now, publish it from a new place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stallscope.clock import Clock
from stallscope.errors import LakeError
from stallscope.storage.compaction import compact, find_jobs
from stallscope.storage.direct import DIRECT_WRITER
from stallscope.storage.follower import ManifestFollower
from stallscope.storage.journal import parts, read_part
from stallscope.storage.layout import Layout, open_lake
from stallscope.storage.locks import FileLock
from stallscope.storage.manifest import ManifestWriter, read_manifest
from stallscope.storage.publisher import Publisher
from stallscope.storage.quarantine import damage_of, quarantined


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a lake.

    Attributes:
        file: Path below the lake.
        problem: What is wrong, in one sentence.
        rows: Rows concerned, 0 when unknown.
    """

    file: str
    problem: str
    rows: int = 0


def verify(lake: Path) -> list[Finding]:
    """Compare every segment with its digest and read every manifest and journal part.

    Returns:
        What is wrong, quarantined files included; empty for a sound lake.

    Raises:
        LakeError: There is no lake, or it cannot be read.
    """
    layout = open_lake(lake)
    findings = [*_manifest_findings(layout), *_journal_findings(layout)]
    for entry in ManifestFollower(layout).entries():
        problem = damage_of(layout, entry)
        if problem:
            findings.append(Finding(f"segments/{entry.file}", problem, entry.rows))
    findings.extend(
        Finding(damage.file, f"in quarantine: {damage.reason}", damage.rows)
        for damage in quarantined(layout)
    )
    return findings


def _manifest_findings(layout: Layout) -> list[Finding]:
    """Return the manifests that are damaged."""
    findings = []
    for writer in layout.writers():
        try:
            read_manifest(layout.manifest(writer))
        except LakeError as error:
            findings.append(Finding(f"manifest/{writer}.jsonl", error.message))
    return findings


def _journal_findings(layout: Layout) -> list[Finding]:
    """Return the journal parts that are damaged."""
    findings = []
    for writer in layout.writers():
        for path in parts(layout.journal(writer)):
            _, damaged = read_part(path)
            if damaged:
                name = str(path.relative_to(layout.root))
                findings.append(Finding(name, f"{damaged} record(s) with a wrong checksum"))
    return findings


def compact_now(lake: Path, clock: Clock) -> int:
    """Merge all closed windows of writers that do not run now.

    Returns:
        Number of merges done.

    Raises:
        LakeError: There is no lake, or a writer that runs merges by itself.
    """
    layout = open_lake(lake)
    done = 0
    for writer in layout.writers():
        lock = FileLock(layout.lock(writer))
        try:
            if not lock.acquire(wait=writer == DIRECT_WRITER):
                msg = f"'{writer}' (process {lock.holder()}) runs and merges this lake by itself"
                raise LakeError(msg, "Nothing to do; stop it first to merge by hand")
            done += _compact_writer(layout, writer, clock)
        finally:
            lock.release()
    return done


def _compact_writer(layout: Layout, writer: str, clock: Clock) -> int:
    """Merge the closed windows of one writer, level by level."""
    manifest = ManifestWriter(layout.manifest(writer), sync=True)
    done = 0
    try:
        while jobs := find_jobs(manifest.entries(), clock.now().wall_us):
            for job in jobs:
                compact(layout, manifest, writer, job, sync=True)
            done += len(jobs)
    finally:
        manifest.close()
    return done


def relocate(lake: Path, library: Sequence[str] = ()) -> Path:
    """Publish the catalog anew after a lake was moved: paths in it are absolute.

    Returns:
        The catalog.

    Raises:
        LakeError: There is no lake, or it cannot be written.
    """
    layout = open_lake(lake)
    try:
        Publisher(layout, library).publish_if_changed()
    except OSError as error:
        msg = f"cannot write {layout.catalog}: {error.strerror}"
        raise LakeError(msg, "Give this user write rights on the lake") from error
    return layout.catalog
