"""Damage to files at rest: named by `lake verify`, set aside by the writer, no reader breaks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.crash.acks import last_acks
from lab.crash.child import FeederProcess
from lab.crash.clock import real_now_us
from lab.crash.plan import Plan
from lab.crash.reading import LakeReader, OwnReader
from lab.report import Check
from stallscope.clock import SystemClock
from stallscope.storage.layout import Layout, open_lake
from stallscope.storage.maintenance import Finding, verify
from stallscope.storage.publisher import Publisher
from stallscope.storage.reader import Lake
from stallscope.storage.writer import Writer, WriterOptions

Spoil = Callable[[Path], None]
_OPTIONS = WriterOptions(housekeeping_s=0.2)
_SCRUB_S = 20.0
_PACE = 60.0
"""A lab minute a second: however far merging has come, there is more than one segment to damage."""
_COUNT = {"rows": "SELECT count(*), count(itl_us) FROM token_gap"}


def truncate(path: Path) -> None:
    """Cut a file to half its size."""
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def empty(path: Path) -> None:
    """Leave a file without a byte."""
    path.write_bytes(b"")


def flip_bit(path: Path) -> None:
    """Flip one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of damage.

    Attributes:
        name: For people.
        spoil: Does it to a file.
        seen_at_once: A look at the size gives it away, so readers pass the file over by themselves.
    """

    name: str
    spoil: Spoil
    seen_at_once: bool


_KINDS = (
    _Kind("truncated segment", truncate, seen_at_once=True),
    _Kind("empty segment", empty, seen_at_once=True),
    _Kind("missing segment", Path.unlink, seen_at_once=True),
    _Kind("flipped bit", flip_bit, seen_at_once=False),
)


def damage_segments(folder: Path, readers: Sequence[LakeReader]) -> list[Check]:
    """Damage one segment after the other in one lake, and look what becomes of it."""
    lake = folder / "lake"
    plan = Plan(
        lake,
        folder / "acks",
        run=1,
        seconds=6,
        tokens_per_second=2_000,
        publish=False,
        pace=_PACE,
        origin_us=real_now_us(),
    )
    FeederProcess(plan, folder / "feeders.log").finish()
    return [check for kind in _KINDS for check in _try_kind(lake, kind, readers)]


def _try_kind(lake: Path, kind: _Kind, readers: Sequence[LakeReader]) -> list[Check]:
    victim = min(Lake(lake).entries(["token_gap"]), key=lambda entry: entry.rows)
    before = _rows(lake, OwnReader())
    kind.spoil(lake / "segments" / victim.file)
    named = [finding for finding in verify(lake) if finding.file.endswith(victim.file)]
    checks = [_names(kind.name, named)]
    if kind.seen_at_once:
        rows = _rows(lake, OwnReader())
        detail = f"{rows:,} of {before:,} rows at once, {victim.rows:,} in the damaged file"
        checks.append(Check(f"{kind.name}: reads go on", rows == before - victim.rows, detail))
    reason = _run_writer_until_said(lake, victim.file)
    checks.append(Check(f"{kind.name}: the writer says so", bool(reason), reason or "it does not"))
    for reader in readers:
        rows = _rows(lake, reader)
        detail = f"{rows:,} rows after quarantine"
        checks.append(Check(f"{kind.name}: {reader.name}", rows == before - victim.rows, detail))
    return checks


def _names(kind: str, findings: list[Finding]) -> Check:
    detail = findings[0].problem if findings else "nothing was found"
    return Check(f"{kind}: lake verify names it", bool(findings), detail)


def _run_writer_until_said(lake: Path, file: str) -> str:
    """Run a writer until it has set the file aside; return its reason, empty when it has none."""
    writer = Writer.open(lake, "collect", clock=SystemClock(), options=_OPTIONS)
    deadline = time.monotonic() + _SCRUB_S
    try:
        while file not in writer.health().reason and time.monotonic() < deadline:
            time.sleep(0.05)
        reason = writer.health().reason
    finally:
        writer.close()
    Publisher(open_lake(lake)).publish_if_changed()
    return reason if file in reason else ""


def _rows(lake: Path, reader: LakeReader) -> int:
    (row,) = reader.ask(lake, _COUNT)["rows"]
    return int(str(row[0]))


def damage_journal(folder: Path) -> list[Check]:
    """Flip a bit in the journal of a killed writer: only the record it hits may be lost."""
    lake = folder / "lake"
    plan = Plan(lake, folder / "acks", run=1, seconds=600, tokens_per_second=2_000, publish=False)
    process = FeederProcess(plan, folder / "feeders.log")
    process.wait_ready()
    time.sleep(3.0)
    process.kill()
    layout = open_lake(lake)
    part = _youngest_part(layout)
    _flip_in_last_record(part)
    named = [f for f in verify(lake) if part.name in f.file]
    writer = Writer.open(lake, "collect", clock=SystemClock(), options=_OPTIONS)
    writer.close()
    (ack,) = last_acks(folder / "acks")
    lost = ack.tokens + ack.polls * 10 - _present(lake, ack.tokens, ack.polls)
    largest = 2_000  # a record holds what came in within 100 ms, at most a few hundred rows
    aside = [f for f in verify(lake) if part.name in f.file]
    return [
        _names("flipped bit in the journal", named),
        Check("flipped bit in the journal: neighbours kept", 0 <= lost < largest, f"{lost} lost"),
        Check(
            "flipped bit in the journal: set aside",
            bool(aside),
            aside[0].problem if aside else "no",
        ),
    ]


def _present(lake: Path, tokens: int, polls: int) -> int:
    """Return how many acknowledged rows are there."""
    queries = {
        "tokens": f"""SELECT count(*) FROM token_gap
            WHERE (request - 1) * 1000::BIGINT + chunk_index < {tokens}""",
        "polls": f"SELECT count(*) FROM block_device WHERE reads < {polls}",
    }
    answers = OwnReader().ask(lake, queries)
    return sum(int(str(answers[name][0][0])) for name in queries)


def _youngest_part(layout: Layout) -> Path:
    return max(layout.journal("collect").glob("*.journal"))


def _flip_in_last_record(part: Path) -> None:
    """Flip a bit in the body of a record near the end, where rows are not sealed yet."""
    data = bytearray(part.read_bytes())
    data[-200] ^= 0x01
    part.write_bytes(data)
