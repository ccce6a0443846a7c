"""The whole proof: engine, collector, load, quiet; then every figure against the engine's own."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from lab.crash.clock import real_now_us
from lab.live.client_gaps import check_gaps, compare, read_stamps, wall_offset_us
from lab.live.compare import (
    Phase,
    compare_clients,
    compare_counters,
    compare_histograms,
    compare_tokens,
)
from lab.live.engine import Engine
from lab.live.load import run_load
from lab.live.stage import (
    SETTLE_S,
    Stage,
    check_served,
    check_unharmed,
    load_of,
    wait_tapped,
    when_quiet,
)
from lab.live.tap_sums import check_sums, make_span, read_sums
from lab.report import Check, say

_LIGHT_STREAMS = 2  # the engine, its frontend, the clients and the collector share the cores


@dataclass(frozen=True, slots=True)
class Extent:
    """How much load.

    Attributes:
        streams: Requests in flight.
        seconds: How long to send.
    """

    streams: int
    seconds: float


def prove(stage: Stage, engine: Engine, extent: Extent) -> list[Check]:
    """Put load on an engine while the collector reads it and hears its taps, and compare.

    Raises:
        StallscopeError: The collector does not read the engine, or the engine does not get quiet.
    """
    scraped_from = when_quiet(engine)
    with stage.sidecar("proof", engine) as sidecar:
        sidecar.wait_rows("engine_metrics")
        wait_tapped(sidecar, engine)
        since_us, before = real_now_us(), when_quiet(engine)
        heavy = _load(engine, extent.streams, extent.seconds, judged=False)
        light = _load(engine, _LIGHT_STREAMS, extent.seconds / 2, judged=True)
        after = when_quiet(engine)
    # Read when all is sealed: some tables are sealed once a minute only.
    lake, served = sidecar.lake, [*light.requests, *heavy.requests]
    span = make_span(before, after, served, counted=heavy.requests)
    return [
        check_served(served),
        check_unharmed(engine),
        compare_tokens(served, before, after),
        *check_sums(span, read_sums(lake, since_us)),
        *compare_counters(lake, scraped_from, after),
        *compare_histograms(lake, scraped_from, after),
        *(check for phase in (light, heavy) for check in _check_clients(lake, phase)),
    ]


def _load(engine: Engine, streams: int, seconds: float, *, judged: bool) -> Phase:
    """Send load and wait until its last scrape is in the lake.

    Clients that overload the machine ask for token counts with every chunk, and are not judged.
    """
    say(f"{streams} streams for {seconds:.0f} s ...")
    since_us = real_now_us()
    load = replace(load_of(engine, streams, seconds), continuous_usage=not judged)
    requests = run_load(load)
    when_quiet(engine)
    time.sleep(SETTLE_S)
    return Phase(f"clients, {streams} streams", requests, since_us, real_now_us(), judged)


def _check_clients(lake: Path, phase: Phase) -> list[Check]:
    """Return whether what clients saw fits the middleware's stamps and the engine's histograms."""
    found = compare(read_stamps(lake), phase.requests, wall_offset_us())
    return [*check_gaps(phase.name, found), *compare_clients(lake, phase, found.lag_us)]
