"""What the rates of one window are compared with. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.link_capacity import LinkState
from collector.link_load import is_loaded
from collector.link_place import Uplink
from collector.nvml.messages import LinkSample

_MOST = 1.1  # of the raw rate: NVML's KB may be 2.4 % off, and windows are not cut sharply


@dataclass(frozen=True, slots=True)
class Comparison:
    """A link during one window.

    Attributes:
        now: As it was.
        best: The same lanes at the highest generation.
        judged: What its rates are compared with: as it was under load, else at its best.
        usual: What copies usually reach: the least of all links up to the root port.
        is_loaded: It was at work.
    """

    now: LinkState
    best: LinkState
    judged: LinkState
    usual: float
    is_loaded: bool


def state_of(sample: LinkSample) -> LinkState | None:
    """Return the link as it was; None when that is unknown, or of a kind that we do not know."""
    if sample.generation is None or sample.width is None:
        return None
    state = LinkState(sample.generation, sample.width)
    return None if state.raw is None else state


def find_contradiction(rates: Mapping[str, float | None], at_most: LinkState | None) -> str:
    """Return why rates cannot be true, empty when they can.

    Args:
        rates: By direction, bytes/s.
        at_most: The best that the link was during the window; None when nobody knows.
    """
    for way, rate in rates.items():
        if rate is None:
            continue
        if not 0 <= rate < math.inf:  # NaN is refused as well
            return f"{way} came out as {rate:g} bytes/s, which is no rate"
        if at_most is not None and at_most.raw is not None and rate > _MOST * at_most.raw:
            return (
                f"{way} came out as {rate / 1e9:.4g} GB/s, but {at_most} carries "
                f"{at_most.raw / 1e9:.4g}: a counter wrapped, or the link changed meanwhile"
            )
    return ""


def choose_state(peak: float, now: LinkState, best: LinkState) -> LinkState:
    """Return the state in which a link is judged.

    An idle link has stepped down and would step up again: it is judged at its best. One that
    carries something is judged as it is, so that one that is stuck is not taken for idle.

    Args:
        peak: What its busier direction carries, bytes/s.
        now: The link as it is.
        best: The same lanes at the highest generation.
    """
    return now if best.raw is None or is_loaded(peak, now, best) else best


def compare(now: LinkState, best: LinkState, peak: float, uplinks: Sequence[Uplink]) -> Comparison:
    """Return a link with what it is compared with.

    Args:
        now: The link as it is.
        best: The same lanes at the highest generation.
        peak: What its busier direction carries, bytes/s.
        uplinks: Links above it, up to the root port.
    """
    judged = choose_state(peak, now, best)
    above = [
        choose_state(peak, uplink.now, uplink.best)
        for uplink in uplinks
        if uplink.now is not None and uplink.best is not None
    ]
    usable = [state.usable for state in (judged, *above) if state.usable is not None]
    return Comparison(now, best, judged, min(usable), is_loaded(peak, now, best))
