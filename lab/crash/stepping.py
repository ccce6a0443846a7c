"""A wall clock that steps by an hour, back and forth, and once by more than a day."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from lab.crash.acks import last_acks
from lab.crash.child import FeederProcess
from lab.crash.plan import Plan
from lab.crash.reading import LakeReader
from lab.crash.verify import check_rows
from lab.report import Check
from stallscope.units import US_PER_SECOND

_HOUR_US = 3_600 * US_PER_SECOND
_STEPS = ((1.5, _HOUR_US), (3.0, -_HOUR_US), (4.5, 30 * _HOUR_US), (5.5, 0))
_SECONDS = 7.0


def step_clock(folder: Path, readers: Iterable[LakeReader]) -> list[Check]:
    """Feed under a stepping clock, kill in mid-step, feed again; no row may suffer."""
    log = folder / "feeders.log"
    first = FeederProcess(_plan(folder, 1), log)
    first.wait_ready()
    time.sleep(4.0)
    first.kill()
    second = FeederProcess(_plan(folder, 2), log)
    second.finish()
    checks = check_rows(readers, folder / "lake", last_acks(folder / "acks"))
    return [Check(f"clock steps: {c.name}", c.holds, c.detail) for c in checks]


def _plan(folder: Path, run: int) -> Plan:
    return Plan(
        lake=folder / "lake",
        acks=folder / "acks",
        run=run,
        seconds=_SECONDS,
        tokens_per_second=5_000,
        steps=_STEPS,
        housekeeping_s=0.5,
    )
