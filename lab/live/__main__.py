"""``python -m lab.live``: prepares a real vLLM on this CPU, puts load on it and compares figures.

The first run downloads and installs about 2.5 GB into a cache folder and takes some minutes.
Without --scenario all are run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab.live.install import default_folder, install_tap, prepare
from lab.live.proof import Extent
from lab.live.scenarios import SECONDS, run_scenarios
from lab.live.stage import Stage
from lab.report import print_checks, say
from stallscope.errors import StallscopeError

_COULD_NOT_RUN = 2


def main(arguments: Sequence[str]) -> int:
    """Run the proof; 0 all figures agree, 1 some do not, 2 it could not be run."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.live",
        description=__doc__,
        epilog="Scenarios, and about how many seconds each takes: "
        + ", ".join(f"{name} {seconds}" for name, seconds in SECONDS.items()),
    )
    parser.add_argument("--dir", type=Path, default=default_folder(), help="cache folder")
    parser.add_argument(
        "--scenario", action="append", default=[], choices=list(SECONDS), help="only this one"
    )
    parser.add_argument("--streams", type=int, default=16, help="requests in flight in the proof")
    parser.add_argument("--seconds", type=float, default=60, help="how long the proof sends")
    parser.add_argument("--rounds", type=int, default=12, help="rounds of the observer effect")
    parser.add_argument("--keep", type=Path, help="folder to keep lakes and logs in")
    given = parser.parse_args(arguments)
    try:
        return _run(given)
    except StallscopeError as error:
        say(str(error))
        return _COULD_NOT_RUN


def _run(given: argparse.Namespace) -> int:
    wanted = given.scenario or list(SECONDS)
    say(f"about {sum(SECONDS[name] for name in wanted) // 60 + 1} minutes")
    prepared = prepare(given.dir, say)
    install_tap(prepared, given.dir)
    with tempfile.TemporaryDirectory(prefix="stallscope-live-") as name:
        folder = given.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        stage = Stage(prepared, folder, Path(name) / "tap.sock")
        extent = Extent(given.streams, given.seconds)
        return print_checks(run_scenarios(stage, wanted, extent, given.rounds))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
