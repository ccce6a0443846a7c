"""Source: the engines' own metrics pages, scraped and turned into canonical columns.

Every address is read at the same time and under its own deadline; one that fails costs its own
rows only. Rows come from what a page says (`engine_reading`) and from what happened since the page
before (`engine_history`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from collector.edges import http_scrape
from collector.edges.http_scrape import ScrapeError
from collector.edges.prompage import Page
from collector.edges.promtext import Parser
from collector.engine_discovery import OWN_PORTS, Answer, EngineDiscovery
from collector.engine_harvest import Harvest, TargetState
from collector.engine_history import Scraped
from collector.engine_scrape_pace import ScrapePace, no_tapped_engines
from collector.engine_scrapes import Fetch, Got, Scrapes
from collector.engine_target import EngineTarget, NoEngineError
from collector.known_engine import KnownEngine
from collector.source import Machine, NoData, Reading, State
from collector.source_loop import describe_crash
from stallscope.settings import EngineTarget as Address
from stallscope.settings import Settings
from stallscope.units import US_PER_MS, US_PER_SECOND

_DEADLINE_US = 2 * US_PER_SECOND


class EngineMetrics:
    """Scrapes engines.

    Args:
        machine: Clock, host name and engine ids.
        discovery: Says which addresses to read.
        fetch: Gets a page.
        interval_us: Wanted pace. A scrape costs a vLLM engine 4 to 16 ms of its event loop.
        deadline_us: For one page, connecting included.
        pace: Says which addresses are read less often.
    """

    name = "engine_metrics"
    tables = ("engine_metrics", "engine_histogram", "engine_config", "change_event")

    def __init__(
        self,
        machine: Machine,
        discovery: EngineDiscovery,
        *,
        fetch: Fetch = http_scrape.fetch,
        interval_us: int = US_PER_SECOND,
        deadline_us: int = _DEADLINE_US,
        pace: ScrapePace | None = None,
    ) -> None:
        self.interval_us = interval_us
        self.deadline_us = 2 * deadline_us  # probing and turning pages into rows come on top
        self._machine = machine
        self._discovery = discovery
        self._pace = pace or ScrapePace()
        self._scrapes = Scrapes(fetch, machine.clock, deadline_us)
        self._targets: dict[str, EngineTarget] = {}
        self._parsers: dict[str, Parser] = {}
        self._states: tuple[TargetState, ...] = ()
        self._answering: tuple[EngineTarget, ...] = ()

    @property
    def answers(self) -> tuple[Answer, ...]:
        """What every probed port said last."""
        return self._discovery.answers

    @property
    def target_states(self) -> tuple[TargetState, ...]:
        """What became of every address at the last scrape."""
        return self._states

    def engines(self) -> tuple[KnownEngine, ...]:
        """Return the engines behind the addresses that are read. Safe from any thread."""
        return tuple(engine for target in self._answering for engine in target.engines)

    def read(self) -> Reading | NoData:
        """Scrape every address that is due.

        Those whose engines have a live tap rest in between; what became of them before still holds.

        Raises:
            SourceError: No address gave a page, and at least one ought to have.
        """
        addresses = self._discovery.targets()
        if not addresses:
            self._states = self._answering = ()
            return NoData(*self._discovery.explain_absence())
        self._follow(addresses)
        now_us = self._machine.clock.now().mono_us
        due = self._pace.pick(self._targets, now_us)
        harvest = Harvest()
        for state in self._states:
            if state.url in self._targets and state.url not in due:
                harvest.rest(state)
        for url, outcome in self._scrapes.get(due).items():
            self._take(self._targets[url], outcome, harvest)
        self._states = harvest.states
        for state in self._states:
            if state.url in due:
                self._pace.note(state, now_us)
        self._answering = tuple(self._targets.values())
        return harvest.conclude(self._pace.tapped_interval_us if self._pace.is_slow else None)

    def close(self) -> None:
        """Stop scraping; a scrape under way ends by its own deadline."""
        self._scrapes.close()

    def _follow(self, addresses: Sequence[Address]) -> None:
        """Keep what is known of addresses that are still wanted, and begin with new ones."""
        self._targets = {
            address.url: self._targets.get(address.url)
            or EngineTarget(address.name, address.url, self._machine)
            for address in addresses
        }
        self._parsers = {url: self._parsers.get(url) or Parser() for url in self._targets}

    def _take(self, target: EngineTarget, outcome: Got | ScrapeError, harvest: Harvest) -> None:
        """Turn what came from one address into rows, or into the reason why there are none."""
        if isinstance(outcome, ScrapeError):
            self._miss(target, outcome, harvest)
            return
        scrape = outcome.scrape
        page = self._parsers[target.url].parse(scrape.body, scrape.content_type, cut=scrape.cut)
        try:
            rows = target.read(Scraped(page, outcome.at, outcome.took_us))
        except NoEngineError as error:
            self._miss(target, ScrapeError(State.NOT_FOUND, str(error)), harvest)
        except Exception as error:  # noqa: BLE001 - one engine's page must not cost the others' rows
            harvest.miss(target.name, target.url, State.FAILED, describe_crash(error))
        else:
            losses = ", ".join(filter(None, (target.losses, _describe_losses(page))))
            harvest.add(target.name, target.url, rows, page.rejected, losses)

    def _miss(self, target: EngineTarget, error: ScrapeError, harvest: Harvest) -> None:
        """Note that an address gave no engine's page."""
        state = error.state
        if error.state is State.NOT_FOUND:
            target.note_absence(self._machine.clock.now())
            if target.has_answered:
                state = State.GONE
            if not error.refused:  # something else answers there now
                self._discovery.lose(target.url)
        harvest.miss(target.name, target.url, state, error.reason)


def build(
    machine: Machine,
    settings: Settings,
    tapped_engines: Callable[[], frozenset[int]] = no_tapped_engines,
) -> EngineMetrics:
    """Return the source as settings want it.

    Args:
        machine: Clock, host name and engine ids.
        settings: Which engines, and how often.
        tapped_engines: Returns the ids of the engines whose steps are told by a tap right now.
    """
    discovery = EngineDiscovery(
        settings.engines,
        settings.discovery.ports,
        http_scrape.fetch,
        machine.clock,
        enabled=settings.discovery.enabled,
        own_ports=OWN_PORTS | {settings.collect.listen_port, settings.dashboard.port},
    )
    interval_us = settings.sources.scrape_interval_ms * US_PER_MS
    tapped_us = settings.sources.tapped_scrape_interval_ms * US_PER_MS
    pace = ScrapePace(tapped_engines, max(interval_us, tapped_us))
    return EngineMetrics(machine, discovery, interval_us=interval_us, pace=pace)


def _describe_losses(page: Page) -> str:
    """Return what of a page could not be read; empty when all of it was."""
    parts = []
    if page.partial:
        parts.append("the page was cut off")
    if page.rejects:
        first = page.rejects[0]
        parts.append(
            f"{page.rejected} lines refused, first line {first.line}: {first.reason}: {first.text}"
        )
    return ", ".join(parts)
