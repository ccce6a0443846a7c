"""A disk that is full, and a disk that turns read-only, under a writer that must go on."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from lab.crash.acks import last_acks
from lab.crash.child import FeederProcess
from lab.crash.plan import Plan
from lab.crash.reading import LakeReader, OwnReader
from lab.crash.small_disk import MIB, fill, mounted, run_command, why_no_mount
from lab.crash.verify import verify_rows
from lab.report import Check

_DISK_MIB = 48
_BEFORE_S = 3.0
_TROUBLE_S = 3.0


def fill_disk(folder: Path, readers: Iterable[LakeReader]) -> list[Check]:
    """Fill a small file system under a writer, kill it there, start it there, then make room."""
    reason = why_no_mount()
    if reason:
        return [Check("full disk", None, reason)]
    disk = folder / "disk"
    with mounted(disk, ["-t", "tmpfs", "-o", f"size={_DISK_MIB}m", "stallscope-lab"]):
        return _fill_and_free(folder, disk, readers)


def _fill_and_free(folder: Path, disk: Path, readers: Iterable[LakeReader]) -> list[Check]:
    log = folder / "feeders.log"
    first = FeederProcess(_plan(folder, run=1, seconds=600), log)
    first.wait_ready()
    time.sleep(_BEFORE_S)
    fill(disk / "filler")
    time.sleep(_TROUBLE_S)
    checks = _while_in_trouble("full disk", first, disk / "lake", log, "No space left")
    first.kill()
    second = FeederProcess(_plan(folder, run=2, seconds=3 * _TROUBLE_S), log)
    second.wait_ready()
    time.sleep(_TROUBLE_S)
    checks.append(Check("full disk: starts on it", second.is_running(), "the lake was opened"))
    (disk / "filler").unlink()
    second.finish()
    return [*checks, *_rows_after("full disk", folder, readers)]


def turn_read_only(folder: Path, readers: Iterable[LakeReader]) -> list[Check]:
    """Turn a file system read-only under a writer, repair it, and go on.

    The kernel does this to ext4 after an I/O error; with files open for writing an ordinary remount
    is refused. What the page cache held is gone then, as at a power cut, so the journal is synced.
    """
    reason = why_no_mount("mkfs.ext4", "e2fsck")
    if reason:
        return [Check("read-only remount", None, reason)]
    disk, image, log = folder / "disk", folder / "disk.img", folder / "feeders.log"
    with image.open("wb") as file:
        file.truncate(_DISK_MIB * MIB)
    run_command(["mkfs.ext4", "-q", str(image)])
    with mounted(disk, ["-o", "loop", str(image)]):
        first = FeederProcess(_plan(folder, run=1, seconds=600, journal_sync=True), log)
        first.wait_ready()
        time.sleep(_BEFORE_S)
        run_command(["mount", "-o", "remount,abort", str(disk)])
        time.sleep(_TROUBLE_S)
        checks = _while_in_trouble("read-only disk", first, disk / "lake", log, "Read-only")
        first.kill()
    subprocess.run(["e2fsck", "-fy", str(image)], capture_output=True, check=False)
    with mounted(disk, ["-o", "loop", str(image)]):
        second = FeederProcess(_plan(folder, run=2, seconds=_BEFORE_S, journal_sync=True), log)
        second.finish()
        return [*checks, *_rows_after("read-only disk", folder, readers)]


def _plan(folder: Path, run: int, seconds: float, *, journal_sync: bool = False) -> Plan:
    return Plan(
        lake=folder / "disk" / "lake",
        acks=folder / "acks",
        run=run,
        seconds=seconds,
        tokens_per_second=5_000,
        journal_sync=journal_sync,
    )


def _while_in_trouble(
    name: str, feeder: FeederProcess, lake: Path, log: Path, words: str
) -> list[Check]:
    """Return whether the writer runs, says what is wrong, and what was sealed is readable."""
    said = [line for line in log.read_text(encoding="utf-8").splitlines() if words in line]
    (row,) = OwnReader().ask(lake, {"rows": "SELECT count(*) FROM token_gap"})["rows"]
    return [
        Check(f"{name}: keeps running", feeder.is_running(), f"process {feeder.pid}"),
        Check(f"{name}: says so", bool(said), said[0] if said else f"'{words}' is not in its log"),
        Check(f"{name}: reads go on", int(str(row[0])) > 0, f"{row[0]} token rows"),
    ]


def _rows_after(name: str, folder: Path, readers: Iterable[LakeReader]) -> list[Check]:
    """Return whether only rows are missing that the writer said it dropped."""
    acks = last_acks(folder / "acks")
    dropped = sum(ack.dropped for ack in acks)
    checks = []
    for reader in readers:
        verdict = verify_rows(reader, folder / "disk" / "lake", acks)
        holds = (
            verdict.lost == dropped
            and verdict.present > 0
            and not (verdict.doubled or verdict.altered or verdict.rollup_off)
        )
        detail = f"{verdict}; {dropped} told as dropped"
        checks.append(Check(f"{name}: rows as {reader.name} sees them", holds, detail))
    return checks
