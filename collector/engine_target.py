"""One address: which engines answer there, and the rows that follow from its pages."""

from __future__ import annotations

from urllib.parse import urlsplit

from collector.edges.prompage import Page
from collector.engine_config import describe_difference, hash_config, stored_settings
from collector.engine_history import EngineHistory, Scraped, Step
from collector.engine_names import detect_kind
from collector.engine_reading import PageReader, read_process_start_us
from collector.engine_rows import (
    Facts,
    config_event,
    config_rows,
    histogram_rows,
    metrics_row,
    restart_event,
)
from collector.engine_runs import Run
from collector.engine_series import EngineKey
from collector.known_engine import KnownEngine
from collector.source import Machine, Row
from stallscope.clock import Instant

_HTTP, _HTTPS = 80, 443
_MOST_ENGINES = 256  # ranks and models behind one address; ids are 16 bits for the life of a lake


class NoEngineError(Exception):
    """A page answers, but no engine can be read from it."""


class EngineTarget:
    """One address and the engines behind it.

    Args:
        name: Its name for people.
        url: Its address.
        machine: Host name and engine ids.

    Attributes:
        engines: The engines of the last page that had any.
    """

    def __init__(self, name: str, url: str, machine: Machine) -> None:
        self.name = name
        self.url = url
        self._endpoint = _without_credentials(url)
        self._machine = machine
        self._reader: PageReader | None = None
        self._histories: dict[EngineKey, EngineHistory] = {}
        self._met: set[tuple[str, EngineKey, str | None]] = set()
        self._left_out = 0
        self._absent: Instant | None = None
        self._last: Instant | None = None
        self.engines: tuple[KnownEngine, ...] = ()

    @property
    def has_answered(self) -> bool:
        """Whether an engine was ever read there."""
        return bool(self._histories)

    @property
    def losses(self) -> str:
        """Engines of the last page that were left out, in words; empty when there were none.

        Ids are 16 bits for the life of a lake: an address that names a new engine on every page
        would use them all up.
        """
        if not self._left_out:
            return ""
        return (
            f"{self._left_out} engines left out: this address has named {_MOST_ENGINES} since the "
            "start, and new ones are not taken up before the next"
        )

    def note_absence(self, at: Instant) -> None:
        """Remember that no engine was there: one that appears later can only have started since."""
        self._absent = at

    def read(self, scraped: Scraped) -> dict[str, list[Row]]:
        """Return the rows of a page, by table.

        Raises:
            NoEngineError: No engine's series stand on it, or those of more than can be.
        """
        reader = self._reader_for(scraped.page)
        start_us = read_process_start_us(scraped.page)
        readings = reader.read(scraped.page)
        if len(readings) > _MOST_ENGINES:
            msg = f"names {len(readings)} engines, more than {_MOST_ENGINES} are not read"
            raise NoEngineError(msg)
        self._left_out = 0
        new = [key for key in readings if key not in self._histories]
        free = max(0, _MOST_ENGINES - len(self._histories))
        self._histories.update((key, EngineHistory()) for key in new[:free])
        rows: dict[str, list[Row]] = {"engine_metrics": [], "engine_histogram": []}
        known = []
        for key, reading in readings.items():
            history = self._histories.get(key)
            if history is None:
                self._left_out += 1
                continue
            # an engine that joins a page was not there when the page before was taken
            absent = self._absent or (self._last if key in new else None)
            run = Run(start_us, reading.births)
            step = history.follow(reading, run, scraped, absent)
            if not self._is_admitted((reader.kind.name, key, hash_config(step.config))):
                self._left_out += 1
                continue
            facts = Facts(self._engine_id(key, step, reader), scraped.at, step.window_us)
            rows["engine_metrics"].append(metrics_row(facts, scraped, reading.gauges, step))
            rows["engine_histogram"] += histogram_rows(facts, step.change.histograms)
            _tell_changes(facts, self._name_of(key), step, rows)
            known.append(self._known(facts, key))
        self.engines = tuple(known)
        self._absent, self._last = None, scraped.at
        return rows

    def _reader_for(self, page: Page) -> PageReader:
        """Return the reader for the engine of a page; another kind there is another engine."""
        reader = self._reader
        if reader is not None and any(map(reader.kind.owns, page.values)):
            return reader
        kind = detect_kind(page.values)
        if kind is None:
            raise NoEngineError(f"answers with {page.samples} samples, 0 engine series")
        self._histories.clear()
        self._last = None
        self._reader = PageReader(kind)
        return self._reader

    def _is_admitted(self, identity: tuple[str, EngineKey, str | None]) -> bool:
        """Return whether an engine has an id already, or may still get one."""
        if identity not in self._met and len(self._met) < _MOST_ENGINES:
            self._met.add(identity)
        return identity in self._met

    def _engine_id(self, key: EngineKey, step: Step, reader: PageReader) -> int:
        return self._machine.names.engine(
            {
                "host": self._machine.host,
                "endpoint": self._endpoint,
                "rank": key.rank,
                "model": key.model,
                "name": self._name_of(key),
                "kind": reader.kind.name,
                "config_hash": hash_config(step.config),
                "version": None,  # no kind tells it on its page
            }
        )

    def _known(self, facts: Facts, key: EngineKey) -> KnownEngine:
        """Return an engine of this page as other sources may know it."""
        parts = urlsplit(self._endpoint)
        return KnownEngine(
            engine=facts.engine,
            name=self.name,
            endpoint=self._endpoint,
            host=parts.hostname or "",
            port=parts.port or (_HTTPS if parts.scheme == "https" else _HTTP),
            rank=key.rank,
            model=key.model,
            seen_mono_us=facts.at.mono_us,
        )

    def _name_of(self, key: EngineKey) -> str:
        """Return a name for people: the target's, and what tells its engines apart."""
        ranks = {other.rank for other in self._histories}
        models = {other.model for other in self._histories}
        rank = f"/{key.rank}" if len(ranks) > 1 else ""
        model = f"/{key.model}" if len(models) > 1 else ""
        return f"{self.name}{rank}{model}"


def _tell_changes(facts: Facts, name: str, step: Step, rows: dict[str, list[Row]]) -> None:
    events = []
    if step.restarted:
        events.append(restart_event(facts, name, step.run_before, step.run))
    difference = describe_difference(step.config_before, step.config)
    if step.config and (difference is not None or step.restarted):
        rows.setdefault("engine_config", []).extend(
            config_rows(facts, stored_settings(step.config))
        )
        if difference is not None and step.config_before:
            events.append(config_event(facts, name, difference))
    if events:
        rows.setdefault("change_event", []).extend(events)


def _without_credentials(url: str) -> str:
    """Return an address as it may be stored."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
