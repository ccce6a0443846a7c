"""``python -m lab.crash [--short] [--only NAME]``: every scenario, a table, exit status 0 or 1."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from lab.crash.damage import damage_journal, damage_segments
from lab.crash.disk import fill_disk, turn_read_only
from lab.crash.kill import Trial, run_kills
from lab.crash.live_readers import watch_live
from lab.crash.reading import LakeReader, OutsideReader, OwnReader, find_outside_readers
from lab.crash.stepping import step_clock
from lab.report import Check, print_checks, say
from stallscope.errors import StallscopeError

Scenario: TypeAlias = Callable[[Path], list[Check]]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of everything.

    Attributes:
        kills: Number of kills.
        longest_s: A process lives up to so long.
        watch_s: How long readers watch a live lake.
        at_once: Scenarios side by side; one at a time where freshness is measured.
    """

    kills: int
    longest_s: float
    watch_s: float
    at_once: int


FULL = Extent(kills=100, longest_s=3.0, watch_s=60.0, at_once=1)
SHORT = Extent(kills=5, longest_s=1.5, watch_s=8.0, at_once=3)


def scenarios(extent: Extent, outside: Sequence[OutsideReader]) -> dict[str, Scenario]:
    """Return every scenario by name; each gets a folder of its own."""
    readers: list[LakeReader] = [OwnReader(), *outside]
    return {
        "kill": lambda folder: run_kills(
            Trial(folder, kills=extent.kills, longest_s=extent.longest_s), readers
        ),
        "full-disk": partial(fill_disk, readers=readers),
        "read-only": partial(turn_read_only, readers=readers),
        "segments": partial(damage_segments, readers=readers),
        "journal": damage_journal,
        "clock": partial(step_clock, readers=readers),
        "readers": partial(watch_live, outside=outside, seconds=extent.watch_s),
    }


def run_all(chosen: Sequence[str], extent: Extent) -> list[Check]:
    """Run scenarios and return their checks, in order of the scenarios.

    Args:
        chosen: Names; none means all.
        extent: How much of everything.
    """
    outside, checks = find_outside_readers()
    wanted = {
        name: work
        for name, work in scenarios(extent, outside).items()
        if not chosen or name in chosen
    }
    with (
        tempfile.TemporaryDirectory(prefix="stallscope-crash-") as root,
        ThreadPoolExecutor(extent.at_once) as pool,
    ):
        done = pool.map(partial(_run, Path(root)), wanted, wanted.values())
        return [*checks, *(check for found in done for check in found)]


def _run(root: Path, name: str, work: Scenario) -> list[Check]:
    """Run one scenario in a folder of its own."""
    folder = root / name
    folder.mkdir()
    say(f"{name} ...")
    begin = time.monotonic()
    checks = _try(name, work, folder)
    say(f"{name}: {time.monotonic() - begin:.0f} s")
    return checks


def _try(name: str, work: Scenario, folder: Path) -> list[Check]:
    """Run one scenario; one that breaks down has failed, and the others go on."""
    try:
        return work(folder)
    except StallscopeError as error:
        for line in _last_lines(folder / "feeders.log"):
            say(f"  {line}")
        return [Check(name, holds=False, detail=str(error))]


def _last_lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines()[-15:] if log.exists() else []


def main(arguments: Sequence[str]) -> int:
    """Run what is asked for; 0 all held, 1 something failed."""
    parser = argparse.ArgumentParser(prog="python -m lab.crash", description=__doc__)
    parser.add_argument(
        "--short", action="store_true", help="5 kills and a short watch, under 60 s"
    )
    parser.add_argument("--kills", type=int, help="number of kills")
    parser.add_argument(
        "--only", action="append", default=[], choices=list(scenarios(FULL, [])), help="a scenario"
    )
    given = parser.parse_args(arguments)
    extent = SHORT if given.short else FULL
    if given.kills:
        extent = replace(extent, kills=given.kills)
    return print_checks(run_all(given.only, extent))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
