"""Engines that are set up otherwise: several of them, several API servers, too little KV memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from lab.crash.clock import real_now_us
from lab.live.client_gaps import check_gaps, compare, read_stamps, wall_offset_us
from lab.live.engine import TAP, Engine, EngineOptions
from lab.live.load import run_load
from lab.live.observer import INSIDE
from lab.live.sidecar import Sidecar
from lab.live.stage import (
    SETTLE_S,
    Stage,
    check_served,
    check_unharmed,
    load_of,
    named,
    wait_tapped,
    when_quiet,
)
from lab.live.tap_sums import Span, check_sums, make_span, read_sums
from lab.report import Check
from stallscope.storage.reader import Lake

_STREAMS = 16
_LOAD_S = 15.0
_LONG_ANSWERS = (200, 400)
_FEW_BLOCKS = "46"  # of 128 tokens: half of what 16 of our longest requests take
_HOSTILE = "/stallscope-lab/hostile"
_OFF = "switched itself off"


@dataclass(frozen=True, slots=True)
class _Played:
    """A load that was sent while the collector heard the taps.

    Attributes:
        span: What was done.
        since_us: When it began.
        unharmed: Whether the engine came to no harm.
    """

    span: Span
    since_us: int
    unharmed: Check


def run_two_engines(stage: Stage) -> list[Check]:
    """Run two engines behind one address (data parallel), each with an API server of its own."""
    options = EngineOptions(arguments=("--data-parallel-size", "2"))
    with stage.engine("dp2", options) as engine, stage.sidecar("dp2", engine) as sidecar:
        played = _play(sidecar, engine)
    return named("dp2", [*_check(played, sidecar.lake), _check_engines(sidecar.lake, 2)])


def run_two_servers(stage: Stage) -> list[Check]:
    """Run one engine behind two API servers."""
    options = EngineOptions(arguments=("--api-server-count", "2"))
    with stage.engine("api2", options) as engine, stage.sidecar("api2", engine) as sidecar:
        played = _play(sidecar, engine)
    return named("api2", [*_check(played, sidecar.lake), _check_engines(sidecar.lake, 1)])


def run_short_of_memory(stage: Stage) -> list[Check]:
    """Run an engine that has to preempt requests."""
    name = "preemption"
    options = EngineOptions(arguments=("--num-gpu-blocks-override", _FEW_BLOCKS))
    with stage.engine(name, options) as engine, stage.sidecar(name, engine) as sidecar:
        played = _play(sidecar, engine, output_tokens=_LONG_ANSWERS)
    rows = read_sums(sidecar.lake)
    happened = Check(
        "requests were preempted",
        rows["preemptions"] > 0,
        f"{rows['preemptions']} preemptions, {rows['outliers']} rows of other gaps",
    )
    return named(name, [*_check(played, sidecar.lake), happened])


def feed_garbage(stage: Stage) -> list[Check]:
    """Run an engine in which both taps are fed with hostile objects besides the real ones."""
    options = EngineOptions(
        middleware=(TAP, "hostile.HostileMiddleware"), environment={"PYTHONPATH": str(INSIDE)}
    )
    with stage.engine("garbage", options) as engine:
        with stage.sidecar("garbage", engine) as sidecar:
            wait_tapped(sidecar, engine)
            engine.throw_switch(_HOSTILE)
            requests = run_load(load_of(engine, _STREAMS, _LOAD_S))
            when_quiet(engine)
        said = engine.find_log_lines(_OFF)
        checks = [check_served(requests), check_unharmed(engine)]
    steps = read_sums(sidecar.lake)["step tokens"]
    detail = said[0].rpartition("] ")[2] if said else "nothing in the engine's log"
    return named(
        "garbage",
        [
            *checks,
            Check("taps told of steps before", steps > 0, f"{steps:,} tokens"),
            Check("taps gave up, and said so", bool(said), detail),
        ],
    )


def _play(sidecar: Sidecar, engine: Engine, output_tokens: tuple[int, int] = (8, 96)) -> _Played:
    """Send load while the collector hears the taps."""
    wait_tapped(sidecar, engine)
    since_us, before = real_now_us(), when_quiet(engine)
    load = replace(
        load_of(engine, _STREAMS, _LOAD_S), continuous_usage=True, output_tokens=output_tokens
    )
    requests = run_load(load)
    span = make_span(before, when_quiet(engine), requests, counted=requests)
    time.sleep(SETTLE_S)
    return _Played(span, since_us, check_unharmed(engine))


def _check(played: _Played, lake: Path) -> list[Check]:
    """Return whether every token is accounted for and all gaps agree with the clients'."""
    requests = played.span.requests
    gaps = compare(read_stamps(lake), requests, wall_offset_us())
    return [
        check_served(requests),
        played.unharmed,
        *check_sums(played.span, read_sums(lake, played.since_us)),
        *check_gaps("clients", gaps),
    ]


def _check_engines(lake: Path, count: int) -> Check:
    """Return whether so many engines told of steps."""
    query = "SELECT engine, sum(generation_tokens) FROM engine_step GROUP BY engine ORDER BY engine"
    with Lake(lake).connect(tables=["engine_step"]) as connection:
        found = connection.execute(query).fetchall()
    detail = ", ".join(f"engine {engine}: {tokens:,} tokens" for engine, tokens in found)
    return Check(f"{count} told of", len(found) == count, detail)
