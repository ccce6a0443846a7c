"""The observer effect: the same requests again and again, with the taps and without, in turn.

One engine runs throughout and only a switch around the taps is thrown: what differs from start to
start of an engine cannot be taken for an effect of the taps. Each round has three stretches in an
order thrown by dice: with taps, without, and without once more, which is the control.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from lab.live.engine import Engine, EngineOptions
from lab.live.inline_cost import check_costs, read_inline_costs
from lab.live.intervals import bootstrap, changes, is_separable
from lab.live.load import Load, run_load
from lab.live.stage import (
    Stage,
    check_served,
    check_unharmed,
    load_of,
    named,
    wait_tapped,
)
from lab.live.stream import Timings
from lab.quantity import show_us
from lab.report import Check, say
from stallscope.storage.reader import Lake
from stallscope.units import US_PER_SECOND

INSIDE = Path(__file__).with_name("inside")
"""Folder of the modules that run inside the engine."""

_SWITCH = "/stallscope-lab/taps/"
_ARMS = {"on": "on", "off": "off", "control": "off"}
_STREAMS = 16
_REQUESTS = 160
_LONG_S = 600.0  # a stretch ends with its last request, not with the time
_STEPS = """
SELECT median(step_us), avg(outputs) FROM engine_step
WHERE NOT outlier AND outputs > 0"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What clients saw of one stretch.

    Attributes:
        itl_us: Mean pause before a token of the median request. Of a client that is behind, single
            pauses say little: chunks come in bunches, some microseconds apart.
        tokens_per_second: Throughput.
        requests: All of them.
    """

    itl_us: float
    tokens_per_second: float
    requests: Sequence[Timings]


def watch_effect(stage: Stage, rounds: int) -> list[Check]:
    """Return what the taps change for clients, beside what changes without any change.

    Args:
        stage: Where it plays.
        rounds: Each takes about 15 s.
    """
    options = EngineOptions(
        middleware=("switched_tap.SwitchedTap",), environment={"PYTHONPATH": str(INSIDE)}
    )
    with stage.engine("observer", options) as engine:
        load = replace(load_of(engine, _STREAMS, _LONG_S, seed=5), requests=_REQUESTS)
        with stage.sidecar("observer", engine) as sidecar:
            wait_tapped(sidecar, engine)
            run_load(load)  # from now on its prompts are in the prefix cache
            found = [_play_round(engine, load, number, rounds) for number in range(rounds)]
            engine.throw_switch(f"{_SWITCH}on")
        costs = read_inline_costs(engine, stage.socket)
        unharmed = check_unharmed(engine)
    step_us, outputs = _read_steps(sidecar.lake)
    served = [request for one in found for stretch in one.values() for request in stretch.requests]
    checks = [check_served(served), unharmed, *check_effect(found)]
    return named("observer", [*checks, *check_costs(costs, step_us, outputs)])


def check_effect(rounds: Sequence[Mapping[str, Stretch]]) -> list[Check]:
    """Return whether taps on and off can be told apart, by pause and by throughput."""
    return [
        _check_figure(rounds, "client ITL", lambda stretch: stretch.itl_us),
        _check_figure(rounds, "throughput", lambda stretch: stretch.tokens_per_second),
    ]


def _check_figure(
    rounds: Sequence[Mapping[str, Stretch]], name: str, figure: Callable[[Stretch], float]
) -> Check:
    values = {arm: [figure(one[arm]) for one in rounds] for arm in _ARMS}
    effect = bootstrap(changes(values["on"], values["off"]))
    control = bootstrap(changes(values["control"], values["off"]))
    detail = (
        f"on/off {effect.as_percent()}, off/off {control.as_percent()} in {len(rounds)} rounds: "
        f"nothing below {control.reach * 100:.1f} % can be seen"
    )
    return Check(f"{name}: not separable", not is_separable(effect, control), detail)


def _play_round(engine: Engine, load: Load, number: int, rounds: int) -> Mapping[str, Stretch]:
    order = list(_ARMS)
    random.Random(number).shuffle(order)
    found = {}
    for arm in order:
        engine.throw_switch(_SWITCH + _ARMS[arm])
        found[arm] = make_stretch(run_load(load))
    told = ", ".join(
        f"{arm} {show_us(one.itl_us)} {one.tokens_per_second:.0f}/s" for arm, one in found.items()
    )
    say(f"round {number + 1} of {rounds}: {told}")
    return found


def make_stretch(requests: Sequence[Timings]) -> Stretch:
    """Return the figures of the requests that were served, of two tokens or more each."""
    requests = [request for request in requests if not request.error]
    begin = min(request.start_us for request in requests)
    end = max(request.end_us for request in requests)
    tokens = sum(request.output_tokens for request in requests)
    pauses = [
        (request.chunks_us[-1] - request.chunks_us[0]) / (request.output_tokens - 1)
        for request in requests
    ]
    return Stretch(median(pauses), tokens * US_PER_SECOND / (end - begin), requests)


def _read_steps(lake: Path) -> tuple[float, float]:
    """Return length and outputs of the median step."""
    with Lake(lake).connect(tables=["engine_step"]) as connection:
        step_us, outputs = connection.execute(_STEPS).fetchall()[0]
    return float(step_us), float(outputs)
