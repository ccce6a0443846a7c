"""What other sources are told of the engines whose pages are read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from collector.edges.http_scrape import Scrape, ScrapeError
from collector.engine_discovery import EngineDiscovery
from collector.engine_metrics import EngineMetrics
from collector.known_engine import KnownEngine
from collector.source import State
from stallscope.settings import EngineTarget
from tests.collector.engine_pages import machine
from tests.collector.stand_ins import SECOND, ManualClock, MemoryStore

_URL = "http://user:pw@gpu-1:8010/metrics"


class _Engines:
    """A source over one address whose page a test sets."""

    def __init__(self) -> None:
        self.page = ""
        self.clock = ManualClock()
        self.source = EngineMetrics(
            machine(self.clock, MemoryStore()),
            EngineDiscovery([EngineTarget("chat", _URL)], (), self._fetch, self.clock),
            fetch=self._fetch,
        )

    def _fetch(self, url: str, deadline_us: int) -> Scrape:
        del url, deadline_us
        if not self.page:
            raise ScrapeError(State.NOT_FOUND, "nobody listens", refused=True)
        return Scrape(self.page.encode(), "text/plain", cut=False)

    def read(self, *ranks: str) -> tuple[KnownEngine, ...]:
        """Return what is known after a page with engines of these ranks."""
        self.page = "".join(
            f'vllm:prompt_tokens_total{{engine="{rank}",model_name="m"}} 5\n' for rank in ranks
        )
        self.clock.advance(SECOND)
        self.source.read()
        return self.source.engines()


@pytest.fixture
def engines() -> Iterator[_Engines]:
    made = _Engines()
    yield made
    made.source.close()


def test_nothing_is_known_before_a_page_was_read(engines: _Engines) -> None:
    assert engines.source.engines() == ()


def test_each_engine_of_a_page_is_known_without_credentials(engines: _Engines) -> None:
    first, second = engines.read("0", "1")
    assert {first.name, second.name} == {"chat"}
    assert {first.rank, second.rank} == {"0", "1"}
    assert first.engine != second.engine
    assert (first.host, first.port, first.model) == ("gpu-1", 8_010, "m")
    assert first.endpoint == "http://gpu-1:8010/metrics"
    assert first.seen_mono_us == engines.clock.mono_us


def test_an_engine_that_is_away_for_a_while_is_still_known(engines: _Engines) -> None:
    (before,) = engines.read("0")
    engines.read("0")
    (away,) = engines.read()
    assert away.engine == before.engine
    assert away.seen_mono_us == engines.clock.mono_us - SECOND


def test_an_engine_that_a_page_no_longer_names_is_forgotten(engines: _Engines) -> None:
    engines.read("0", "1")
    assert [engine.rank for engine in engines.read("1")] == ["1"]
