"""The whole proof: engine, collector, load, quiet, comparison."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.crash.child import child_environment
from lab.crash.clock import real_now_us
from lab.live.compare import (
    Phase,
    compare_clients,
    compare_counters,
    compare_histograms,
    compare_tokens,
)
from lab.live.engine import MODEL, Engine
from lab.live.load import Load, run_load
from lab.live.own_figures import OwnFigures, parse_own_figures
from lab.report import Check, say
from stallscope.errors import LakeError, StallscopeError
from stallscope.storage.reader import Lake

_FIRST_ROW_S = 30.0
_QUIET_S = 60.0
_SETTLE_S = 5.0  # two scrapes, one journal and one seal
_LIGHT_STREAMS = 2  # the engine, its frontend, the clients and the collector share the cores


@dataclass(frozen=True, slots=True)
class Proof:
    """What to do.

    Attributes:
        folder: For the lake and logs.
        streams: Requests in flight.
        seconds: How long to send.
    """

    folder: Path
    streams: int
    seconds: float


def prove(proof: Proof, engine: Engine) -> list[Check]:
    """Put load on a healthy engine while the collector reads it, and compare.

    Raises:
        StallscopeError: The collector does not read the engine, or the engine does not get quiet.
    """
    lake = proof.folder / "lake"
    _warm_up(engine)
    before = _when_quiet(engine)
    with _collector(proof.folder, engine.url):
        _wait_first_row(lake)
        phases = [
            _load(engine, _LIGHT_STREAMS, proof.seconds / 2, judged=True),
            _load(engine, proof.streams, proof.seconds, judged=False),
        ]
        after = _when_quiet(engine)
    served = [request for phase in phases for request in phase.requests]
    return [
        _all_served(phases),
        compare_tokens(served, before, after),
        *compare_counters(lake, before, after),
        *compare_histograms(lake, before, after),
        *(check for phase in phases for check in compare_clients(lake, phase)),
    ]


def _load(engine: Engine, streams: int, seconds: float, *, judged: bool) -> Phase:
    """Send load and wait until its last scrape is in the lake."""
    say(f"{streams} streams for {seconds:.0f} s ...")
    since_us = real_now_us()
    requests = run_load(Load("127.0.0.1", engine.port, MODEL, streams, seconds))
    _when_quiet(engine)
    time.sleep(_SETTLE_S)
    return Phase(f"clients, {streams} streams", requests, since_us, real_now_us(), judged)


def _all_served(phases: Sequence[Phase]) -> Check:
    """Return whether no request failed."""
    requests = [request for phase in phases for request in phase.requests]
    failed = [request.error for request in requests if request.error]
    detail = f"{len(requests) - len(failed)} served, {len(failed)} failed"
    return Check("requests served", not failed, f"{detail}; {failed[0]}" if failed else detail)


def _warm_up(engine: Engine) -> None:
    """Send a little, so that first-request compilation is not part of the figures."""
    run_load(Load("127.0.0.1", engine.port, MODEL, streams=4, seconds=2, seed=99))


def _when_quiet(engine: Engine) -> OwnFigures:
    """Return the engine's figures once nothing runs and nothing changes any more."""
    deadline = time.monotonic() + _QUIET_S
    last = OwnFigures(in_flight=1)
    while time.monotonic() < deadline:
        figures = parse_own_figures(engine.read_metrics())
        if figures.in_flight == 0 and figures == last:
            return figures
        last = figures
        time.sleep(1.0)
    raise StallscopeError("the engine does not get quiet: somebody else sends requests too")


@contextmanager
def _collector(folder: Path, url: str) -> Iterator[None]:
    """Run `stallscope collect` on the engine."""
    settings = folder / "stallscope.toml"
    settings.write_text(
        f'[lake]\npath = "{folder / "lake"}"\n[collect]\nlisten_port = 19871\n'
        f'[[engines]]\nname = "live"\nurl = "{url}"\n',
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "stallscope.cli", "collect", "--config", str(settings)]
    with (folder / "collect.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=child_environment())
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=60)
    if status != 0:
        raise StallscopeError(f"collect ended with {status}", f"See {folder}/collect.log")


def _wait_first_row(lake: Path) -> None:
    """Wait until a scrape of the engine is in the lake."""
    deadline = time.monotonic() + _FIRST_ROW_S
    while time.monotonic() < deadline:
        try:
            if Lake(lake).entries(["engine_metrics"]):
                return
        except LakeError:
            pass  # not made yet
        time.sleep(0.2)
    raise StallscopeError(
        "no scrape of the engine reached the lake", f"See {lake.parent}/collect.log"
    )
