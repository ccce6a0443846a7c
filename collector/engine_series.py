"""What each series of an engine's page is for, worked out once per series."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from collector.edges.promline import Labels
from collector.edges.prompage import Page, Series
from collector.engine_aliases import EngineKind, Meaning

_BOUND_LABELS = frozenset({"le", "quantile"})
_SPARE = 1_000


class EngineKey(NamedTuple):
    """Which engine of a page: its data-parallel rank and model, '' where the page names none."""

    rank: str
    model: str


@dataclass(frozen=True, slots=True, eq=False)
class Child:
    """One labelled metric, with its buckets if it is a histogram. One object per metric.

    Attributes:
        base: Name without the suffixes that counters and histograms get.
        labels: Its labels, ``le`` left out.
        engine: The engine it belongs to, as its labels say.
        group: What is left when replica labels are taken away; equal groups count the same events.
    """

    base: str
    labels: Labels
    engine: EngineKey
    group: tuple[str, Labels]


class Use(NamedTuple):
    """One thing that one series is for: a meaning, the labelled metric it is of, and its ``le``."""

    meaning: Meaning
    child: Child
    bound: float


class SeriesUse(NamedTuple):
    """Everything one series of an engine is for; uses are empty where no column takes it."""

    engine: EngineKey
    uses: tuple[Use, ...]


class SeriesMap:
    """Looks up what series are for and remembers it.

    Args:
        kind: The kind of engine behind the target.
    """

    def __init__(self, kind: EngineKind) -> None:
        self._kind = kind
        self._uses: dict[Series, SeriesUse | None] = {}
        self._children: dict[tuple[str, Labels], Child] = {}

    def look_up(self, series: Series) -> SeriesUse | None:
        """Return what a series is for; None when it is none of the engine's."""
        try:
            return self._uses[series]
        except KeyError:
            return self._uses.setdefault(series, self._resolve(series))

    def child(self, base: str, labels: Labels) -> Child:
        """Return the labelled metric of that name and these labels."""
        own = tuple(label for label in labels if label[0] not in _BOUND_LABELS)
        child = self._children.get((base, own))
        if child is None:
            group = tuple(label for label in own if label[0] not in self._kind.replica_labels)
            child = Child(base, own, self._engine_of(dict(own)), (base, group))
            self._children[base, own] = child
        return child

    def forget(self, page: Page) -> None:
        """Keep memory bounded when a target invents series: those of this page stay known."""
        if len(self._uses) > 2 * len(page.values) + _SPARE:
            self._uses = {one: use for one, use in self._uses.items() if one in page.values}
            kept = [use.child for uses in self._uses.values() if uses for use in uses.uses]
            self._children = {(child.base, child.labels): child for child in kept}

    def _resolve(self, series: Series) -> SeriesUse | None:
        meanings = self._kind.meanings(series)
        if not meanings and not self._kind.owns(series):
            return None
        bound = _bound_of(series)
        uses = tuple(
            Use(meaning, self.child(meaning.base, series.labels), bound) for meaning in meanings
        )
        return SeriesUse(self._engine_of(dict(series.labels)), uses)

    def _engine_of(self, labels: Mapping[str, str]) -> EngineKey:
        kind = self._kind
        rank = next((labels[name] for name in kind.rank_labels if name in labels), "")
        model = next((labels[name] for name in kind.model_labels if name in labels), "")
        return EngineKey(rank, "ensemble" if model in kind.pipeline else model)


def _bound_of(series: Series) -> float:
    """Return the upper bound of a bucket, NaN where there is none that can be read."""
    try:
        return float(series.label("le") or "nan")
    except ValueError:
        return math.nan
