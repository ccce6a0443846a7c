"""`stallscope calibrate`: measure what each GPU's host link achieves, one way and both at once."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from collector.calibration.one_gpu import Bench, Gpus, Outcome, calibrate
from collector.calibration.storing import store
from collector.calibration.tool_choice import find_tool
from collector.edges.nvml_process import NvmlProcess, Patience
from collector.nvml.messages import GpuFacts, Greeting
from stallscope.clock import SystemClock
from stallscope.commands.calibrate_text import Told, as_objects, as_text
from stallscope.commands.json_text import json_text
from stallscope.commands.messages import sentence
from stallscope.commands.options import add_settings_options, lake_to_read
from stallscope.commands.progress import progress
from stallscope.commands.stopping import ended_like_ctrl_c
from stallscope.errors import LakeError, StallscopeError
from stallscope.settings import Settings

_SECONDS = 6.0
_MOST_SECONDS = 120.0
_START_S = 30.0
"""Where no persistence daemon keeps the driver loaded, NVML's start takes seconds."""
_FAULTS = frozenset({Outcome.BUSY, Outcome.FAILED})


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--gpu",
        metavar="INDEX|UUID",
        action="append",
        default=[],
        help="only this GPU; may be repeated",
    )
    parser.add_argument("--force", action="store_true", help="even while a GPU is at work")
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="copy with the PyTorch or CuPy of this Python, not with nvbandwidth",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=_SECONDS,
        metavar="N",
        help=f"how long to copy on each GPU (default: {_SECONDS:g})",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_settings_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Calibrate the GPUs one after the other; returns 1 when one was busy or failed.

    What is measured is stored at once, so that a Ctrl-C or SIGTERM keeps it.

    Raises:
        StallscopeError: The settings are wrong, or there is no GPU or nothing that can copy.
    """
    lake, settings = lake_to_read(arguments)
    with ended_like_ctrl_c(), _open_gpus() as (gpus, greeting):
        chosen = choose(greeting.gpus, arguments.gpu)
        bench = _bench(arguments, settings, gpus)
        results: list[Told] = []
        try:
            for place, gpu in enumerate(chosen, start=1):
                results.append(_one(gpu, bench, lake, f"GPU {place} of {len(chosen)}"))
        finally:
            _show(results, lake, bench.tool.seconds, as_json=arguments.json)
    return int(any(told.done.outcome in _FAULTS for told in results))


def choose(gpus: Sequence[GpuFacts], wanted: Sequence[str]) -> list[GpuFacts]:
    """Return the GPUs that somebody means: by index, UUID or its beginning.

    All that have a link of their own when none is named: a MIG instance has none.

    Raises:
        StallscopeError: There is no such GPU, or several; the hint names those there are.
    """
    if not wanted:
        return [gpu for gpu in gpus if not gpu.parent]
    return [gpu for gpu in gpus if gpu in {_find(gpus, word) for word in wanted}]


def _find(gpus: Sequence[GpuFacts], word: str) -> GpuFacts:
    found = [
        gpu
        for gpu in gpus
        if (word == str(gpu.index) and not gpu.parent)
        or (len(word) > len("GPU-") and gpu.uuid.startswith(word))
    ]
    if len(found) != 1:
        problem = "There is no GPU" if not found else f"There are {len(found)} GPUs"
        there = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus if not gpu.parent)
        raise StallscopeError(f"{problem} {word!r}", f"There are: {there}")
    return found[0]


@contextmanager
def _open_gpus() -> Iterator[tuple[Gpus, Greeting]]:
    """Yield the NVML child and what it said first.

    Raises:
        StallscopeError: NVML does not serve, or there is no GPU.
    """
    process = NvmlProcess(patience=Patience(greeting=_START_S))
    try:
        greeting = process.greet()
        if not greeting.gpus:
            raise StallscopeError("There is no GPU", "See: stallscope doctor")
        yield process, greeting
    finally:
        process.close()


def _bench(arguments: argparse.Namespace, settings: Settings, gpus: Gpus) -> Bench:
    tool = find_tool(arguments.python, arguments.seconds, os.environ, settings.host.sys)
    return Bench(gpus, tool, SystemClock(), settings.host.proc, arguments.force)


def _one(gpu: GpuFacts, bench: Bench, lake: Path, which: str) -> Told:
    """Calibrate a GPU and store what came out."""
    tool = bench.tool
    with progress(f"{which}: copying by {tool.label}, which takes about {tool.seconds:.0f} s"):
        done = calibrate(gpu, bench)
    if done.outcome is not Outcome.MEASURED:
        return Told(done)
    try:
        store(lake, done, bench.clock, bench.proc)
    except LakeError as error:
        return Told(done, not_stored=sentence(error))
    return Told(done, is_stored=True)


def _show(results: Sequence[Told], lake: Path, seconds: float, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json_text({"lake": lake, "gpus": as_objects(results)}))
    else:
        sys.stdout.write(as_text(results, lake, seconds))


def _seconds(text: str) -> float:
    """Return a number of seconds.

    Raises:
        argparse.ArgumentTypeError: It is none, or out of range.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= _MOST_SECONDS:
        msg = f"{text}: want 1 to {_MOST_SECONDS:g} seconds"
        raise argparse.ArgumentTypeError(msg)
    return value
