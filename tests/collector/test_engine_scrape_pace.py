"""Pages of engines with a live tap are read less often, those of the others as before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from collector.edges.http_scrape import Scrape, ScrapeError
from collector.engine_discovery import EngineDiscovery
from collector.engine_metrics import EngineMetrics
from collector.engine_scrape_pace import ScrapePace
from collector.source import Reading, State
from stallscope.settings import EngineTarget
from tests.collector.engine_pages import machine
from tests.collector.stand_ins import SECOND, ManualClock, MemoryStore

_A, _B = "http://127.0.0.1:8000/metrics", "http://127.0.0.1:8001/metrics"


class _Bench:
    """A source of two addresses, read each second, and what it asked of them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.asked: list[str] = []
        self.broken: set[str] = set()
        self.tapped: set[int] = set()
        named = [EngineTarget(name, url) for name, url in (("a", _A), ("b", _B))]
        self.source = EngineMetrics(
            machine(self.clock, MemoryStore()),
            EngineDiscovery(named, (), self._fetch, self.clock),
            fetch=self._fetch,
            pace=ScrapePace(lambda: frozenset(self.tapped), 10 * SECOND),
        )

    def read(self) -> Reading:
        self.clock.advance(SECOND)
        reading = self.source.read()
        assert isinstance(reading, Reading), reading
        return reading

    def read_for(self, seconds: int) -> dict[str, int]:
        """Read so often and return how often each address was asked."""
        self.asked.clear()
        for _ in range(seconds):
            self.read()
        return {name: self.asked.count(url) for name, url in (("a", _A), ("b", _B))}

    def engine_of(self, port: int) -> int:
        [engine] = [one.engine for one in self.source.engines() if one.port == port]
        return engine

    def _fetch(self, url: str, deadline_us: int) -> Scrape:
        del deadline_us
        self.asked.append(url)
        if url in self.broken:
            raise ScrapeError(State.FAILED, "HTTP 500")
        page = b'vllm:num_requests_running{engine="0",model_name="m"} 1\n'
        return Scrape(page, "text/plain", cut=False)


@pytest.fixture
def bench() -> Iterator[_Bench]:
    made = _Bench()
    yield made
    made.source.close()


def test_without_a_tap_every_page_is_read_every_time(bench: _Bench) -> None:
    assert bench.read_for(20) == {"a": 20, "b": 20}


def test_the_page_of_a_tapped_engine_is_read_every_ten_seconds(bench: _Bench) -> None:
    bench.read()
    bench.tapped = {bench.engine_of(8000)}
    assert bench.read_for(30) == {"a": 3, "b": 30}


def test_when_the_tap_falls_silent_the_usual_pace_is_back_at_once(bench: _Bench) -> None:
    bench.read()
    bench.tapped = {bench.engine_of(8000)}
    bench.read_for(5)
    bench.tapped = set()
    assert bench.read_for(5) == {"a": 5, "b": 5}


def test_a_page_that_fails_does_not_rest(bench: _Bench) -> None:
    bench.read()
    bench.tapped = {bench.engine_of(8000)}
    bench.broken = {_A}
    assert bench.read_for(30)["a"] >= 20


def test_what_was_said_of_an_address_holds_while_it_rests(bench: _Bench) -> None:
    bench.read()
    bench.tapped = {bench.engine_of(8000), bench.engine_of(8001)}
    for _ in range(5):
        reading = bench.read()
        assert reading.reason == ""
        assert not any(reading.rows.values())
        assert [one.state for one in bench.source.target_states] == [State.WORKING] * 2
    assert {one.port for one in bench.source.engines()} == {8000, 8001}


def test_rows_of_a_slow_pace_say_so_and_are_not_stale_in_between(bench: _Bench) -> None:
    assert bench.read().interval_us is None
    bench.tapped = {bench.engine_of(8000)}
    assert bench.read().interval_us == 10 * SECOND
    bench.tapped = set()
    assert bench.read().interval_us is None


def test_each_change_of_pace_is_logged_once(
    bench: _Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        bench.read()
        bench.tapped = {bench.engine_of(8000)}
        bench.read_for(5)
        bench.tapped = set()
        bench.read_for(5)
    told = [record.message for record in caplog.records if "is read" in record.message]
    assert told == [
        "a is read every 10 s, its tap tells more",
        "a is read at the usual pace again",
    ]
