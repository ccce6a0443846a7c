"""What one engine did between two pages: growth of counters and histograms, and doubts about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collector.engine_histograms import BORN, FELL, Cumulative, Growth, add, grow, suspect
from collector.engine_reading import EngineReading
from collector.engine_runs import Bases
from collector.engine_series import Child

STEP_COUNTERS = ("generation_tokens", "prompt_tokens", "preemptions")
"""Counters that move whenever the engine does a step that matters."""
_LIVE_GAUGES = ("running", "waiting", "kv_usage_ratio")
_HIT_RATES = (("prefix_hits", "prefix_queries"), ("external_hits", "external_queries"))

Counters = Mapping[str, Mapping[Child, int]]
Histograms = Mapping[str, Mapping[Child, Cumulative]]


@dataclass(frozen=True, slots=True)
class Count:
    """One counter column: its total as exposed and its growth, None when that is unknown."""

    total: int
    delta: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """What happened in a window.

    Attributes:
        counters: Per column.
        histograms: Per family in which something was observed.
        flags: What looks wrong.
    """

    counters: dict[str, Count]
    histograms: dict[str, Growth]
    flags: frozenset[str]


def measure(now: EngineReading, counters: Counters, histograms: Histograms, bases: Bases) -> Change:
    """Return what happened since the totals of the page before.

    Args:
        now: This page.
        counters: Totals before; columns and labelled metrics may be missing.
        histograms: The same for histograms.
        bases: From where each metric's growth counts.
    """
    flags = set(now.flags)
    counted = {
        column: _count(totals, counters.get(column, {}), bases, flags)
        for column, totals in now.counters.items()
    }
    grown: dict[str, Growth] = {}
    for family, children in now.histograms.items():
        growths = _grow_family(children, histograms.get(family, {}), bases)
        if growths:
            growth = add(growths)
            if growth.observations:
                grown[family] = Growth(growth.bounds, growth.counts, growth.total, suspect(growth))
            flags |= growth.flags & {FELL}
    return Change(counted, grown, frozenset(flags | _doubt_hits(counted)))


def is_standing_still(
    now: Mapping[str, float], before: Mapping[str, float], change: Change
) -> bool:
    """Return whether gauges that show work did not move while no step was counted.

    Gauges have stayed at 99 % for hours after aborts (vllm#29928, vllm#22545): "busy" must not be
    derived from them.
    """
    live = {name: now[name] for name in _LIVE_GAUGES if now.get(name)}
    if not live or any(before.get(name) != value for name, value in live.items()):
        return False
    steps = [change.counters[name].delta for name in STEP_COUNTERS if name in change.counters]
    return bool(steps) and not any(steps) and not change.histograms


def _count(
    totals: Mapping[Child, int], before: Mapping[Child, int], bases: Bases, flags: set[str]
) -> Count:
    deltas = [
        _delta(child, total, before.get(child), bases, flags) for child, total in totals.items()
    ]
    known = [delta for delta in deltas if delta is not None]
    return Count(sum(totals.values()), sum(known) if known else None)


def _delta(
    child: Child, total: int, before: int | None, bases: Bases, flags: set[str]
) -> int | None:
    from_zero = bases.from_zero(child, seen_before=before is not None)
    if from_zero is None:
        return None
    if before is not None and total < before:
        flags.add(FELL)
        return total
    return total if from_zero or before is None else total - before


def _grow_family(
    children: Mapping[Child, Cumulative], before: Mapping[Child, Cumulative], bases: Bases
) -> list[Growth]:
    growths = []
    for child, now in children.items():
        old = before.get(child)
        from_zero = bases.from_zero(child, seen_before=old is not None)
        if from_zero:
            growth = grow(None, now)
            growths.append(
                Growth(growth.bounds, growth.counts, growth.total, growth.flags | {BORN})
            )
        elif from_zero is False:
            growths.append(grow(old, now))
    return growths


def _doubt_hits(counted: Mapping[str, Count]) -> set[str]:
    """Return doubts about hit rates.

    Retries of scheduling and recomputation after preemption count as hits (vllm#43736, vllm#25780).
    """
    doubts = set()
    for hits, queries in _HIT_RATES:
        if {hits, queries} <= counted.keys() and _exceeds(counted[hits], counted[queries]):
            doubts.add("hits_exceed_queries")
    hit_delta = counted["prefix_hits"].delta if "prefix_hits" in counted else None
    preempted = counted["preemptions"].delta if "preemptions" in counted else None
    if hit_delta and preempted:
        doubts.add("hits_with_preemption")
    return doubts


def _exceeds(hits: Count, queries: Count) -> bool:
    if hits.delta is not None and queries.delta is not None and hits.delta > queries.delta:
        return True
    return hits.total > queries.total
