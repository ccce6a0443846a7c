"""What is gathered per engine while a page is walked through, and which engine owns what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from collector.engine_aliases import Role
from collector.engine_series import Child, EngineKey, Use

_LARGEST = 2**63
_Part = TypeVar("_Part")

ByChoice: TypeAlias = dict[str, dict[int, dict[Child, _Part]]]
"""Per target and spelling, the labelled metrics."""


@dataclass(slots=True)
class RawHistogram:
    """The parts of one histogram as they stand on the page."""

    buckets: dict[float, float | None] = field(default_factory=dict)
    observations: float | None = None
    total: float | None = None
    scale: float = 1.0


@dataclass(slots=True)
class Draft:
    """One engine, half read.

    Attributes:
        gauges: Gauges as printed.
        counters: Totals in the column's unit.
        histograms: Histograms as printed.
        births: When labelled metrics were born, wall clock.
        config: Labels of the configuration series.
        flags: What looks wrong.
        times_us: Timestamps that series carry.
    """

    gauges: ByChoice[float] = field(default_factory=dict)
    counters: ByChoice[int] = field(default_factory=dict)
    histograms: ByChoice[RawHistogram] = field(default_factory=dict)
    births: dict[Child, int] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    times_us: list[int] = field(default_factory=list)

    def take(self, use: Use, value: float | None) -> None:
        """Add one value. NaN is none, nor is -1, which V0 prints for "no data"."""
        role = use.meaning.role
        if role is Role.COUNTER:
            self._take_counter(use, value)
        elif role in {Role.COUNT, Role.RATIO}:
            self._take_gauge(use, value)
        else:
            self._take_part(use, value)

    def merge(self, guest: Draft) -> None:
        """Add everything another draft holds."""
        _merge(self.gauges, guest.gauges)
        _merge(self.counters, guest.counters)
        _merge(self.histograms, guest.histograms)
        self.births.update(guest.births)
        self.config.update(guest.config)
        self.flags |= guest.flags
        self.times_us += guest.times_us

    @property
    def is_measured(self) -> bool:
        """Whether it holds any figure."""
        return bool(self.gauges or self.counters or self.histograms)

    def _take_counter(self, use: Use, value: float | None) -> None:
        if value is None:
            return
        scaled = value * use.meaning.alias.scale
        if 0 <= scaled < _LARGEST:
            _place(self.counters, use, round(scaled))

    def _take_gauge(self, use: Use, value: float | None) -> None:
        if value is None or not 0 <= value < math.inf:
            return
        _place(self.gauges, use, value)
        if value > 1 and use.meaning.alias.target.endswith("usage_ratio"):
            self.flags.add("usage_above_one")

    def _take_part(self, use: Use, value: float | None) -> None:
        alias = use.meaning.alias
        children = self.histograms.setdefault(alias.target, {}).setdefault(use.meaning.choice, {})
        histogram = children.setdefault(use.child, RawHistogram(scale=alias.scale))
        if use.meaning.role is Role.BUCKET:
            histogram.buckets[use.bound] = value
        elif use.meaning.role is Role.SUM:
            histogram.total = value
        else:
            histogram.observations = value


def join_engines(drafts: Mapping[EngineKey, Draft]) -> dict[EngineKey, Draft]:
    """Return the drafts with what names no rank or no model given to the engine it belongs to.

    ``cache_config_info`` has a rank and no model, ``admission_rejections`` a model and no rank.
    What counts for several ranks together goes to the lowest, so that sums over ranks stay right,
    and that engine is flagged.
    """
    joined = dict(drafts)
    for key in sorted(drafts, key=_rank_order):
        homes = [other for other in sorted(joined, key=_rank_order) if _may_hold(other, key)]
        if homes:
            guest = joined.pop(key)
            if not key.rank and len({home.rank for home in homes}) > 1 and guest.is_measured:
                guest.flags.add("shared_series")
            joined[homes[0]].merge(guest)
    return joined


def _may_hold(home: EngineKey, key: EngineKey) -> bool:
    """Return whether an engine is named more fully than a key, and does not contradict it."""
    rank_fits = home.rank == key.rank or not key.rank
    model_fits = home.model == key.model or not key.model
    return home != key and rank_fits and model_fits


def _rank_order(key: EngineKey) -> tuple[int, str, str]:
    return (int(key.rank) if key.rank.isdecimal() else -1, key.rank, key.model)


def _place(target: ByChoice[_Part], use: Use, value: _Part) -> None:
    meaning = use.meaning
    target.setdefault(meaning.alias.target, {}).setdefault(meaning.choice, {})[use.child] = value


def _merge(home: ByChoice[_Part], guest: ByChoice[_Part]) -> None:
    for target, choices in guest.items():
        for choice, children in choices.items():
            home.setdefault(target, {}).setdefault(choice, {}).update(children)
