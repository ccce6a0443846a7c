"""Every scenario by name, and which of them share one engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from lab.live.disturbed import fill_disk, kill_collector, run_without_socket
from lab.live.engine import PLAIN, Engine
from lab.live.observer import watch_effect
from lab.live.proof import Extent, prove
from lab.live.stage import Stage
from lab.live.variants import (
    feed_garbage,
    run_short_of_memory,
    run_two_engines,
    run_two_servers,
)
from lab.report import Check, say

OnEngine: TypeAlias = Callable[[Stage, Engine], list[Check]]
OnStage: TypeAlias = Callable[[Stage], list[Check]]


def with_plain_engine(extent: Extent) -> Mapping[str, OnEngine]:
    """Return the scenarios that need no special engine, and share one."""
    return {
        "proof": partial(prove, extent=extent),
        "killed": kill_collector,
        "no-socket": run_without_socket,
        "full-disk": fill_disk,
    }


def with_own_engine(rounds: int) -> Mapping[str, OnStage]:
    """Return the scenarios that start an engine of their own.

    Args:
        rounds: Of the observer effect.
    """
    return {
        "observer": partial(watch_effect, rounds=rounds),
        "garbage": feed_garbage,
        "preemption": run_short_of_memory,
        "api2": run_two_servers,
        "dp2": run_two_engines,
    }


SECONDS = {
    "proof": 150,
    "killed": 60,
    "no-socket": 45,
    "full-disk": 60,
    "observer": 300,
    "garbage": 80,
    "preemption": 100,
    "api2": 110,
    "dp2": 180,
}
"""About how long each takes on two cores, its engine's start included."""


def run_scenarios(stage: Stage, wanted: Sequence[str], extent: Extent, rounds: int) -> list[Check]:
    """Run scenarios and return their checks; one that breaks down has failed, the others go on.

    Args:
        stage: Where they play.
        wanted: Their names.
        extent: Load of the proof.
        rounds: Of the observer effect.
    """
    checks = _on_plain_engine(stage, wanted, with_plain_engine(extent))
    for name, work in with_own_engine(rounds).items():
        if name in wanted:
            say(f"{name} ...")
            checks += _try(name, partial(work, stage))
    return checks


def _on_plain_engine(
    stage: Stage, wanted: Sequence[str], scenarios: Mapping[str, OnEngine]
) -> list[Check]:
    chosen = [name for name in scenarios if name in wanted]
    if not chosen:
        return []
    checks: list[Check] = []

    def run_all() -> list[Check]:
        with stage.engine("plain", PLAIN) as engine:
            for name in chosen:
                say(f"{name} ...")
                checks.extend(_try(name, partial(scenarios[name], stage, engine)))
        return []

    return [*_try("plain engine", run_all), *checks]


def _try(name: str, work: Callable[[], list[Check]]) -> list[Check]:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the others' figures took minutes, and stand
        return [Check(name, holds=False, detail=f"{type(error).__name__}: {error}")]
