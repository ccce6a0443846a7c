"""The tiles of Now: one per engine, one for the disks, one for pressure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analytics.quantiles import Interval
from dashboard import formats
from dashboard.answers import Usual, is_worse, known
from dashboard.exact_latency import LEVELS
from dashboard.present import DiskNow, EngineNow, Present

_TIER_NAMES = {
    "device": "GPU",
    "host": "RAM",
    "disk": "NVMe",
    "p2p": "peer",
    "external": "external",
}
_FLAGS = {
    "gauges_stale": "gauges are stale",
    "hits_exceed_queries": "hits exceed queries",
    "usage_above_one": "KV usage above 1",
    "identity_unknown": "restarts cannot be seen",
    "counter_fell": "a counter fell",
}
MAX_ENGINES = 3


def tiles(present: Present, usual: Usual, minute: str) -> list[dict[str, Any]]:
    """Return the tiles, the longest tail first; what does not fit is named in the last of them.

    Args:
        present: The figures.
        usual: What they are held against.
        minute: How to call the minute they cover.
    """
    shown = [_engine(now, usual, minute) for now in present.engines[:MAX_ENGINES]]
    rest = present.engines[MAX_ENGINES:]
    if rest:
        names = formats.joined([now.engine.name for now in rest])
        shown[-1]["more"] = f"{formats.count(len(rest), 'engine')} with a shorter tail: {names}"
    hosts = [_disks(present.disks, minute), _pressure(present.pressure, minute)]
    return shown + [tile for tile in hosts if tile is not None]


def _engine(now: EngineNow, usual: Usual, minute: str) -> dict[str, Any]:
    """Return the tile of an engine."""
    tail = now.tail
    worse = tail is not None and is_worse(tail, usual.tails.get(now.engine.id))
    return {
        "name": now.engine.name,
        "word": "longer than usual" if worse else "no SLO",
        "kind": "worse" if worse else "fine",
        **_figure(tail),
        "what": f"ITL p99, {minute}",
        "under": _against(now, usual),
        "pairs": _latency_pairs(now),
        "lines": [_load(now), _hits(now)],
        "foot": LEVELS[tail.level] if tail else "scraped",
        "warning": _warning(now),
        "tip": _tip(tail),
    }


def _figure(tail: Interval | None) -> dict[str, str]:
    """Return the big figure of an engine."""
    if tail is None:
        return {"figure": "no requests", "unit": ""}
    if tail.value_us is not None:
        return {
            "figure": formats.latency(tail.value_us).partition(formats.NBSP)[0],
            "unit": formats.latency(tail.value_us).partition(formats.NBSP)[2],
        }
    figure, unit = formats.interval_parts(tail.lower_us, tail.upper_us)
    return {"figure": figure, "unit": unit}


def _against(now: EngineNow, usual: Usual) -> str:
    """Return what the figure is held against: the median, and the same over the range."""
    median = now.quantiles.get(("itl_us", 0.5))
    longer = usual.tails.get(now.engine.id)
    parts = [f"p50 {known(median)}"] if median else []
    if longer:
        parts.append(f"p99 of {usual.label}: {known(longer)}")
    return ", ".join(parts)


def _latency_pairs(now: EngineNow) -> list[list[str]]:
    """Return (name, p99, p50) of the other latencies."""
    pairs = []
    for family, name in (("ttft_us", "TTFT"), ("e2e_us", "e2e")):
        p99, p50 = now.quantiles.get((family, 0.99)), now.quantiles.get((family, 0.5))
        if p99 is None or p50 is None:
            pairs.append([name, "no requests", ""])
        else:
            pairs.append([name, f"p99 {known(p99)}", f"p50 {known(p50)}"])
    return pairs


def _load(now: EngineNow) -> str:
    """Return what the engine has to do."""
    parts = [
        f"{formats.number(value)} {word}"
        for value, word in ((now.running, "running"), (now.waiting, "waiting"))
        if value is not None
    ]
    if now.kv_usage_ratio is not None:
        parts.append(f"KV {formats.percent(now.kv_usage_ratio)} full")
    return ", ".join(parts) or "load not offered by this engine"


def _hits(now: EngineNow) -> str:
    """Return the hit rate by tier, where tiers that never hit go without saying."""
    if not now.hits:
        return "hit rate not offered by this engine"
    shown = [
        f"{_TIER_NAMES[tier]} {formats.percent(ratio)}"
        for tier, ratio in sorted(now.hits, key=lambda hit: list(_TIER_NAMES).index(hit[0]))
        if ratio is not None and (ratio or tier == "device")
    ]
    return f"Hits: {', '.join(shown)}" if shown else "Hits: no prompts in that minute"


def _warning(now: EngineNow) -> str:
    """Return why the figures are to be taken with care, or an empty text."""
    tail = now.tail
    notes = [tail.note] if tail and tail.note else []
    notes += [_FLAGS.get(flag, flag) for flag in now.flags.split(",") if flag]
    if any(ratio is not None and ratio > 1 for _, ratio in now.hits):
        notes.append("hits exceed queries")
    return ", ".join(dict.fromkeys(notes))


def _tip(tail: Interval | None) -> str:
    """Return how the figure came about, for hover."""
    if tail is None:
        return "The engine answered, but observed nothing in that minute."
    if tail.value_us is not None:
        return f"{formats.count(tail.observations, 'gap')} measured one by one, to within 1 %."
    return (
        f"{formats.count(tail.observations, 'observation')} in the engine's own buckets. Where in "
        "the bucket the p99 lies, nobody knows."
    )


def _disks(disks: Sequence[DiskNow], minute: str) -> dict[str, Any] | None:
    """Return the tile of the disks, the slowest in front; None when there are none."""
    if not disks:
        return None
    slowest = disks[0]
    read = slowest.read_us
    figure, _, unit = (
        ("idle", "", "") if read is None else formats.latency(read).partition(formats.NBSP)
    )
    stuck = [disk.name for disk in disks if disk.stuck]
    return {
        "name": slowest.name,
        "word": f"1 of {len(disks)}" if disks[1:] else "only disk",
        "kind": "fine",
        "figure": figure,
        "unit": unit,
        "what": f"mean read, {minute}",
        "under": "slowest disk of this host",
        "pairs": [
            ["writes", _latency_or(slowest.write_us, "none"), ""],
            ["queue", _or_word(slowest.queue), f"{_or_word(slowest.in_flight)} in flight"],
        ],
        "lines": [_other_disks(disks[1:])],
        "foot": "block layer",
        "warning": f"nothing completes on {formats.joined(stuck)}" if stuck else "",
        "tip": "Mean time from queueing to completion of the reads that completed in that minute.",
    }


def _latency_or(us: float | None, word: str) -> str:
    """Return a latency, or the word for a missing one."""
    return word if us is None else formats.latency(us)


def _or_word(value: float | None) -> str:
    """Return a count, or the word for a missing one."""
    return "not known" if value is None else formats.number(round(value, 1))


def _other_disks(disks: Sequence[DiskNow]) -> str:
    """Return the other disks in a line."""
    known_us = [disk.read_us for disk in disks if disk.read_us is not None]
    if not disks:
        return ""
    if not known_us:
        return f"{formats.count(len(disks), 'other')} read nothing"
    return f"{formats.count(len(disks), 'other')}: reads up to {formats.latency(max(known_us))}"


def _pressure(pressure: Mapping[str, float | None], minute: str) -> dict[str, Any] | None:
    """Return the tile of pressure; None when the kernel gives none."""
    io = pressure.get("io")
    if all(value is None for value in pressure.values()):
        return None
    figure, _, unit = (
        ("not known", "", "")
        if io is None
        else formats.percent(round(io, 4)).partition(formats.NBSP)
    )
    return {
        "name": "Pressure",
        "word": "whole host",
        "kind": "fine",
        "figure": figure,
        "unit": unit,
        "what": "I/O, some task stalled",
        "under": f"share of the {minute}",
        "pairs": [
            [name, "not known" if value is None else formats.percent(round(value, 4)), ""]
            for name, value in (("memory", pressure.get("memory")), ("CPU", pressure.get("cpu")))
        ],
        "lines": [],
        "foot": "kernel PSI",
        "warning": "",
        "tip": "Pressure stall information of the kernel: time in which at least one task waited.",
    }
