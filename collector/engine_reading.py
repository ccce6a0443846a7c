"""From a page to engines: one reading per data-parallel rank and model.

Spelling, replicas and odd numbers are settled here; what comes out are canonical columns. Nothing
is compared with earlier pages yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from collector.edges.prompage import Page, Series
from collector.engine_aliases import EngineKind
from collector.engine_draft import Draft, RawHistogram, join_engines
from collector.engine_histograms import Cumulative, NotCumulativeError, read_cumulative
from collector.engine_series import Child, EngineKey, SeriesMap
from stallscope.units import US_PER_SECOND

PROCESS_START = "process_start_time_seconds"
_YEAR_10000_S = 253_402_300_800
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class EngineReading:
    """What a page says about one engine.

    Attributes:
        gauges: Value per column.
        counters: Total per column and labelled metric, in the column's unit.
        histograms: The same for families.
        births: When labelled metrics were born, wall clock.
        config: Labels of the configuration series; empty where there is none.
        flags: What looks wrong.
        cut_off: A histogram ends before +Inf: the page was cut there.
        newest_us: Latest timestamp that a series of this engine carries, if any does.
    """

    gauges: Mapping[str, float]
    counters: Mapping[str, Mapping[Child, int]]
    histograms: Mapping[str, Mapping[Child, Cumulative]]
    births: Mapping[Child, int]
    config: Mapping[str, str]
    flags: frozenset[str]
    cut_off: bool
    newest_us: int | None


class PageReader:
    """Reads the pages of one target; what its series mean is looked up once per series.

    Args:
        kind: The kind of engine behind the target.
    """

    def __init__(self, kind: EngineKind) -> None:
        self.kind = kind
        self._series = SeriesMap(kind)

    def read(self, page: Page) -> dict[EngineKey, EngineReading]:
        """Return a reading for every engine of the page, in the order of their ranks."""
        drafts: dict[EngineKey, Draft] = {}
        for series, value in page.values.items():
            found = self._series.look_up(series)
            if found is not None:
                draft = drafts.get(found.engine) or drafts.setdefault(found.engine, Draft())
                for use in found.uses:
                    draft.take(use, value)
                if series.name in self.kind.config:
                    draft.config.update(self._config_of(series))
                if series in page.times_us:
                    draft.times_us.append(page.times_us[series])
        self._take_births(page, drafts)
        self._series.forget(page)
        joined = join_engines(drafts)
        return {key: _finish(joined[key]) for key in sorted(joined)}

    def _take_births(self, page: Page, drafts: dict[EngineKey, Draft]) -> None:
        for series, seconds in page.births.items():
            born_us = _wall_us(seconds)
            if born_us is not None and self.kind.owns(series):
                child = self._series.child(series.name, series.labels)
                draft = drafts.get(child.engine) or drafts.setdefault(child.engine, Draft())
                draft.births[child] = born_us

    def _config_of(self, series: Series) -> dict[str, str]:
        identity = (*self.kind.rank_labels, *self.kind.model_labels)
        return {name: value for name, value in series.labels if name not in identity}


def read_process_start_us(page: Page) -> int | None:
    """Return when the process behind a page started, wall clock, where the page tells."""
    for series, value in page.values.items():
        if series.name == PROCESS_START:
            return _wall_us(value)
    return None


def _wall_us(seconds: float | None) -> int | None:
    """Return a point in time, None for what is none: NaN, infinity, beyond the calendar."""
    if seconds is None or not 0 <= seconds < _YEAR_10000_S:
        return None
    return round(seconds * US_PER_SECOND)


def _finish(draft: Draft) -> EngineReading:
    flags = set(draft.flags)
    histograms: dict[str, dict[Child, Cumulative]] = {}
    cut_off = False
    for family, choices in draft.histograms.items():
        children, complete = _read_family(family, choices[min(choices)], flags)
        cut_off = cut_off or not complete
        if children:
            histograms[family] = _one_per_group(children, lambda one: one.counts[-1])
    return EngineReading(
        gauges={name: _settle(name, choices) for name, choices in draft.gauges.items()},
        counters={
            name: _one_per_group(choices[min(choices)], int)
            for name, choices in draft.counters.items()
        },
        histograms=histograms,
        births=draft.births,
        config=draft.config,
        flags=frozenset(flags),
        cut_off=cut_off,
        newest_us=max(draft.times_us, default=None),
    )


def _settle(column: str, choices: Mapping[int, Mapping[Child, float]]) -> float:
    """Return a gauge: shares by their largest, because they never add up; counts by their sum."""
    values = choices[min(choices)]
    if column.endswith("_ratio"):
        return max(values.values())
    return sum(_one_per_group(values, float).values())


def _read_family(
    family: str, children: Mapping[Child, RawHistogram], flags: set[str]
) -> tuple[dict[Child, Cumulative], bool]:
    """Return the histograms of a family that can be read, and whether all of them are complete."""
    read: dict[Child, Cumulative] = {}
    complete = True
    for child, raw in children.items():
        try:
            one = read_cumulative(raw.buckets, raw.observations, raw.total, raw.scale)
        except NotCumulativeError:
            flags.add(f"not_cumulative:{family}")
            continue
        if one is None:
            complete = complete and not raw.buckets
        else:
            read[child] = one
    return read, complete


def _one_per_group(
    children: Mapping[Child, _Part], size: Callable[[_Part], float]
) -> dict[Child, _Part]:
    """Return one labelled metric of each group of replicas: the one that counted most."""
    chosen: dict[tuple[object, ...], Child] = {}
    for child in sorted(children, key=lambda one: one.labels) if len(children) > 1 else children:
        holder = chosen.setdefault(child.group, child)
        if size(children[child]) > size(children[holder]):
            chosen[child.group] = child
    return {child: children[child] for child in chosen.values()}
