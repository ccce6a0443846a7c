"""``python -m lab.live``: prepares a real vLLM on this CPU, puts load on it and compares figures.

The first run downloads and installs about 2.5 GB into a cache folder and takes some minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab.bench.rival import free_port
from lab.live.engine import Engine
from lab.live.install import default_folder, prepare
from lab.live.proof import Proof, prove
from lab.report import print_checks, say
from stallscope.errors import StallscopeError

_COULD_NOT_RUN = 2


def main(arguments: Sequence[str]) -> int:
    """Run the proof; 0 all figures agree, 1 some do not, 2 it could not be run."""
    parser = argparse.ArgumentParser(prog="python -m lab.live", description=__doc__)
    parser.add_argument("--dir", type=Path, default=default_folder(), help="cache folder")
    parser.add_argument("--streams", type=int, default=12, help="requests in flight")
    parser.add_argument("--seconds", type=float, default=60, help="how long to send")
    parser.add_argument("--keep", type=Path, help="folder to keep lake and logs in")
    given = parser.parse_args(arguments)
    try:
        return _run(given)
    except StallscopeError as error:
        say(str(error))
        return _COULD_NOT_RUN


def _run(given: argparse.Namespace) -> int:
    prepared = prepare(given.dir, say)
    with tempfile.TemporaryDirectory(prefix="stallscope-live-") as name:
        folder = given.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        with Engine(prepared, free_port(), given.dir / "engine.log") as engine:
            say("starting the engine ...")
            say(f"healthy after {engine.wait_healthy():.0f} s")
            return print_checks(prove(Proof(folder, given.streams, given.seconds), engine))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
