"""One engine from page to page: what it did since the page before, and what is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from collector.edges.prompage import Page
from collector.engine_growth import Change, is_standing_still, measure
from collector.engine_histograms import Cumulative
from collector.engine_reading import EngineReading
from collector.engine_runs import Bases, Continuity, Run, compare, has_fallen
from collector.engine_series import Child
from stallscope.clock import Instant
from stallscope.units import US_PER_SECOND

_OLD_US = 30 * US_PER_SECOND
_SPARE = 100
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class Scraped:
    """One page and when it came.

    Attributes:
        page: What it says.
        at: When its last byte was here.
        took_us: From the request to the last byte.
    """

    page: Page
    at: Instant
    took_us: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one page added to the history of an engine.

    Attributes:
        change: Growth and doubts.
        window_us: How far back growth reaches; None when nothing came before.
        restarted: The engine began anew in the window.
        partial: The page was cut off.
        run: The run of this page.
        run_before: The run of the page before, if any.
        config: Its settings as last shown.
        config_before: The settings before.
    """

    change: Change
    window_us: int | None
    restarted: bool
    partial: bool
    run: Run
    run_before: Run | None
    config: Mapping[str, str]
    config_before: Mapping[str, str]


class EngineHistory:
    """What is remembered of one engine.

    Totals that a page lacks (a refused line, a page cut off) are remembered from earlier pages, so
    that growth adds up to the engine's own totals once they are shown again.
    """

    def __init__(self) -> None:
        self._at: Instant | None = None
        self._run: Run | None = None
        self._counters: dict[str, dict[Child, int]] = {}
        self._histograms: dict[str, dict[Child, Cumulative]] = {}
        self._gauges: Mapping[str, float] = {}
        self._config: Mapping[str, str] = {}
        self._whole = False

    def follow(
        self, reading: EngineReading, run: Run, scraped: Scraped, absent: Instant | None
    ) -> Step:
        """Return what a page adds, and remember it.

        Args:
            reading: What the page says about this engine.
            run: The run it belongs to.
            scraped: The page and its time.
            absent: When the engine was last known not to be there, if that is later than its last
                page.
        """
        since = self._at or absent
        continuity = self._relate(reading, run, scraped.at, since)
        if continuity is Continuity.RESTARTED and absent is not None:
            since = self._later_begin(run, scraped.at, absent)
        since_us = None if since is None else _on_wall(since, scraped.at)
        bases = Bases(continuity, self._run, run, since_us, self._whole)
        change = measure(reading, self._counters, self._histograms, bases)
        step = Step(
            change=_flag(change, self._doubts(reading, run, change, continuity, scraped.at)),
            window_us=_window(since, scraped.at, change, continuity),
            restarted=continuity is Continuity.RESTARTED,
            partial=scraped.page.partial or reading.cut_off,
            run=run,
            run_before=self._run,
            config=reading.config or self._config,
            config_before=self._config,
        )
        self._remember(reading, step, scraped, continuity)
        return step

    def _relate(
        self, reading: EngineReading, run: Run, at: Instant, since: Instant | None
    ) -> Continuity:
        if since is None or self._run is None:
            return Continuity.FIRST
        continuity = compare(self._run, run, _on_wall(since, at))
        if continuity is Continuity.UNKNOWN and has_fallen(
            _flatten(self._counters), _flatten(reading.counters)
        ):
            return Continuity.RESTARTED
        return continuity

    def _later_begin(self, run: Run, at: Instant, absent: Instant) -> Instant | None:
        """Return where the window of a new run begins: where it was seen absent, if not older."""
        started_since = run.start_us is None or run.start_us >= _on_wall(absent, at)
        return absent if started_since else self._at

    def _doubts(
        self,
        reading: EngineReading,
        run: Run,
        change: Change,
        continuity: Continuity,
        at: Instant,
    ) -> set[str]:
        doubts = set()
        if run.start_us is None:
            doubts.add("identity_unknown")
        if continuity is Continuity.OTHER:
            doubts.add("other_process")
        if is_standing_still(reading.gauges, self._gauges, change):
            doubts.add("gauges_stale")
        if reading.newest_us is not None and at.wall_us - reading.newest_us > _OLD_US:
            doubts.add("data_old")
        return doubts

    def _remember(
        self, reading: EngineReading, step: Step, scraped: Scraped, continuity: Continuity
    ) -> None:
        if continuity in {Continuity.RESTARTED, Continuity.OTHER}:
            self._counters, self._histograms = {}, {}
        self._counters = _update(self._counters, reading.counters)
        self._histograms = _update(self._histograms, reading.histograms)
        known = step.run_before.births if step.run_before and not step.restarted else {}
        births = {**known, **step.run.births} if step.partial else step.run.births
        self._run = Run(step.run.process_start_us, births)
        self._at = scraped.at
        self._gauges = reading.gauges
        self._config = step.config
        self._whole = not step.partial and not scraped.page.rejected


def _on_wall(moment: Instant, now: Instant) -> int:
    """Return an earlier moment on the wall clock of now, whatever steps it made in between."""
    return now.wall_us - (now.mono_us - moment.mono_us)


def _window(
    since: Instant | None, at: Instant, change: Change, continuity: Continuity
) -> int | None:
    """Return the length of the window; None where growth is unknown because nothing came before."""
    if since is None:
        return None
    known = bool(change.histograms) or any(
        count.delta is not None for count in change.counters.values()
    )
    return at.mono_us - since.mono_us if known or continuity is not Continuity.FIRST else None


def _flag(change: Change, doubts: set[str]) -> Change:
    return Change(change.counters, change.histograms, change.flags | doubts)


def _flatten(counters: Mapping[str, Mapping[Child, int]]) -> dict[Child, int]:
    return {child: total for totals in counters.values() for child, total in totals.items()}


def _update(
    before: dict[str, dict[Child, _Part]], now: Mapping[str, Mapping[Child, _Part]]
) -> dict[str, dict[Child, _Part]]:
    """Return the totals with those of a new page; what has long been gone is forgotten."""
    merged = {**before}
    for target, children in now.items():
        old = before.get(target, {})
        keeps = len(old) <= 2 * len(children) + _SPARE
        merged[target] = {**old, **children} if keeps else dict(children)
    return merged
