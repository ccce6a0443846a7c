"""``python -m lab.bench [--quick] [--only SECTION]``: figures beside bars; exit status 0.

Bars are printed and never asserted: figures depend on the machine and on who else uses it, so its
speed is measured first and printed with them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from lab.bench.figure import Figure, print_figures
from lab.bench.gpus import measure_gpus
from lab.bench.ingest import measure_ingest
from lab.bench.machine import measure_machine
from lab.bench.parsing import measure_parsing
from lab.bench.queries import measure_queries
from lab.bench.raw import measure_raw
from lab.bench.sizes import measure_sizes
from lab.bench.taps import measure_taps
from lab.report import say

Section: TypeAlias = Callable[[], list[Figure]]

_UNASKED = ("ingest", "tap", "gpu", "disk", "parse", "query")
"""What is measured when nothing is asked for; the hour of raw rows takes a minute to make."""


def sections(*, quick: bool) -> dict[str, Section]:
    """Return what can be measured, by name."""
    seconds, repeats = (8.0, 1) if quick else (30.0, 3)
    return {
        "machine": measure_machine,
        "ingest": partial(measure_ingest, seconds, repeats),
        "tap": partial(measure_taps, seconds, repeats),
        "gpu": partial(measure_gpus, seconds, repeats),
        "disk": measure_sizes,
        "parse": partial(measure_parsing, 5 if quick else 30),
        "query": partial(measure_queries, 3 if quick else 11),
        "raw": partial(measure_raw, repeats),
    }


def main(arguments: Sequence[str]) -> int:
    """Measure what is asked for and print it."""
    names = list(sections(quick=True))
    parser = argparse.ArgumentParser(prog="python -m lab.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short and not repeated")
    parser.add_argument("--only", action="append", default=[], choices=names, help="a section")
    given = parser.parse_args(arguments)
    figures: list[Figure] = []
    for name, measure in sections(quick=given.quick).items():
        if name in {"machine", *(given.only or _UNASKED)}:
            say(f"{name} ...")
            figures += measure()
    print_figures(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
