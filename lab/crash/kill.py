"""kill -9 at random moments, again and again, in one lake."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.crash.acks import last_acks
from lab.crash.child import FeederProcess
from lab.crash.clock import real_now_us
from lab.crash.plan import Plan
from lab.crash.reading import LakeReader
from lab.crash.verify import check_reservations, check_rows
from lab.report import Check, say
from stallscope.storage.maintenance import verify

_PACE = 20.0
"""A lab minute is 3 s, so kills also fall into merging, into dropping and into grace periods."""
_GRACE_S = 90.0
_IN_STARTUP = 0.2
"""Share of kills that come while the process still opens the lake and replays its journal."""


@dataclass(frozen=True, slots=True)
class Trial:
    """How often and how to kill.

    Attributes:
        folder: For lake, acknowledgements and log.
        kills: How often.
        tokens_per_second: Token rows per second.
        longest_s: A process lives up to so long before it is killed.
        seed: Same seed, same moments.
    """

    folder: Path
    kills: int = 100
    tokens_per_second: int = 20_000
    longest_s: float = 3.0
    seed: int = 1


def run_kills(trial: Trial, readers: Iterable[LakeReader]) -> list[Check]:
    """Kill, end in order once, and compare the lake with what was acknowledged."""
    dice = random.Random(trial.seed)
    origin_us = real_now_us()
    begin = time.monotonic()
    for number in range(1, trial.kills + 1):
        _live_and_die(trial, _plan(trial, number, origin_us, seconds=600), dice)
        if number % 10 == 0:
            say(f"  {number} of {trial.kills} kills, {time.monotonic() - begin:.0f} s")
    last = FeederProcess(_plan(trial, trial.kills + 1, origin_us, seconds=8), _log(trial))
    last.wait_ready()
    last.finish()
    acks = last_acks(_acks(trial))
    findings = verify(trial.folder / "lake")
    return [
        *check_rows(readers, trial.folder / "lake", acks),
        check_reservations(acks, block=100),
        Check("lake verify after the kills", not findings, _first(findings)),
    ]


def _live_and_die(trial: Trial, plan: Plan, dice: random.Random) -> None:
    """Start a process and kill it at a random moment of its start or of its work."""
    process = FeederProcess(plan, _log(trial))
    if dice.random() >= _IN_STARTUP:
        process.wait_ready()
    time.sleep(dice.uniform(0.05, trial.longest_s))
    process.kill()


def _plan(trial: Trial, run: int, origin_us: int, seconds: float) -> Plan:
    return Plan(
        lake=trial.folder / "lake",
        acks=_acks(trial),
        run=run,
        seconds=seconds,
        tokens_per_second=trial.tokens_per_second,
        pace=_PACE,
        origin_us=origin_us,
        grace_s=_GRACE_S,
        housekeeping_s=0.5,
    )


def _acks(trial: Trial) -> Path:
    return trial.folder / "acks"


def _log(trial: Trial) -> Path:
    return trial.folder / "feeders.log"


def _first(findings: Sequence[object]) -> str:
    return f"{len(findings)} findings" + (f", first: {findings[0]}" if findings else "")
