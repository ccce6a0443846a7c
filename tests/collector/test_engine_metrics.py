"""The source: several addresses, each with its own trouble."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from collector.edges import http_scrape
from collector.edges.http_scrape import Scrape, ScrapeError
from collector.engine_discovery import EngineDiscovery
from collector.engine_metrics import EngineMetrics, build
from collector.source import NoData, Reading, SourceError, State
from stallscope.settings import EngineTarget, load
from stallscope.storage.rows import to_batch
from tests.collector.engine_pages import LABELS, Pages, machine
from tests.collector.raw_server import answer, free_port, measure_s, serving
from tests.collector.stand_ins import SECOND, ManualClock, MemoryStore

A, B = "http://127.0.0.1:8000/metrics", "http://127.0.0.1:8001/metrics"
Said = bytes | Exception | Callable[[], bytes]


class Bench:
    """A source over addresses whose answers a test sets."""

    def __init__(self, *urls: str, deadline_us: int = SECOND) -> None:
        self.said: dict[str, Said] = dict.fromkeys(urls, b"")
        self.clock = ManualClock()
        self.store = MemoryStore()
        named = [EngineTarget(f"e{place}", url) for place, url in enumerate(urls)]
        self.source = EngineMetrics(
            machine(self.clock, self.store),
            EngineDiscovery(named, (), self.fetch, self.clock),
            fetch=self.fetch,
            deadline_us=deadline_us,
        )

    def fetch(self, url: str, deadline_us: int) -> Scrape:
        del deadline_us
        self.clock.advance(3_000)
        said = self.said[url]
        if isinstance(said, Exception):
            raise said
        return Scrape(said if isinstance(said, bytes) else said(), "text/plain", cut=False)

    def read(self, **said: Said) -> Reading:
        for name, page in said.items():
            self.said[A if name == "a" else B] = page
        self.clock.advance(SECOND)
        reading = self.source.read()
        assert isinstance(reading, Reading), reading
        for table, rows in reading.rows.items():
            to_batch(table, rows)
        return reading


@pytest.fixture
def pair() -> Iterator[Bench]:
    bench = Bench(A, B, deadline_us=SECOND // 5)
    yield bench
    bench.source.close()


def page(count: int) -> bytes:
    return f'vllm:prompt_tokens_total{{engine="0",model_name="m"}} {count}\n'.encode()


def test_rows_carry_time_cost_and_window(pair: Bench) -> None:
    pair.read(a=page(10), b=page(100))
    reading = pair.read(a=page(11), b=page(107))
    rows = reading.rows["engine_metrics"]
    assert isinstance(rows, list)
    assert sorted(row["prompt_tokens_delta"] for row in rows) == [1, 7]
    assert all(row["scrape_us"] >= 3_000 for row in rows)
    assert reading.reason == ""
    assert pair.source.tables == (
        "engine_metrics", "engine_histogram", "engine_config", "change_event",
    )  # fmt: skip
    assert set(reading.rows) <= set(pair.source.tables)


def test_one_address_that_fails_costs_the_other_nothing(pair: Bench) -> None:
    pair.read(a=page(10), b=page(100))
    error = ScrapeError(State.FAILED, "HTTP 500 Internal Server Error")
    reading = pair.read(a=page(12), b=error)
    rows = reading.rows["engine_metrics"]
    assert isinstance(rows, list)
    assert [row["prompt_tokens_delta"] for row in rows] == [2]
    assert reading.reason == f"e1 at {B}: HTTP 500 Internal Server Error"
    assert [(one.name, one.state) for one in pair.source.target_states] == [
        ("e0", State.WORKING),
        ("e1", State.FAILED),
    ]


def test_what_nobody_foresaw_at_one_address_is_no_trouble_of_the_other(pair: Bench) -> None:
    reading = pair.read(a=page(12), b=RuntimeError("surprise"))
    assert len(reading.rows["engine_metrics"]) == 1
    assert "RuntimeError" in reading.reason
    assert "surprise" in reading.reason


def test_an_engine_that_gets_no_id_costs_the_other_nothing(pair: Bench) -> None:
    pair.store.reserved["engine"] = 2**16 - 1  # one id is left in this lake
    reading = pair.read(a=page(12), b=page(13))
    assert len(reading.rows["engine_metrics"]) == 1
    assert f"e1 at {B}: " in reading.reason
    assert "ids of this lake are used up" in reading.reason


def test_an_address_that_goes_on_hanging_does_not_slow_the_others_down(pair: Bench) -> None:
    pair.read(a=page(10), b=page(100))
    release = threading.Event()

    def hang() -> bytes:
        release.wait(20)
        return page(101)

    pair.read(a=page(11), b=hang)  # the first time it is waited for
    begin = time.monotonic()
    for turn in range(5):
        pair.read(a=page(12 + turn))
    assert measure_s(begin) < 0.2, "not even one of five waited for the deadline"
    release.set()
    deadline = time.monotonic() + 10
    while pair.read(a=page(20)).reason:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_address_that_hangs_is_named_and_not_asked_twice(pair: Bench) -> None:
    release, asked = threading.Event(), []

    def hang() -> bytes:
        asked.append(1)
        release.wait(10)
        return page(1)

    begin = time.monotonic()
    reading = pair.read(a=page(12), b=hang)
    assert measure_s(begin) < 2
    assert len(reading.rows["engine_metrics"]) == 1
    assert "did not end within 0.2 s" in reading.reason
    pair.read(a=page(13))
    assert len(asked) == 1
    release.set()
    while len(pair.read(a=page(14), b=page(5)).rows["engine_metrics"]) < 2:
        assert measure_s(begin) < 20


def test_a_single_address_is_read_by_the_caller_so_that_its_cost_is_counted() -> None:
    bench, threads = Bench(A), []

    def note() -> bytes:
        threads.append(threading.current_thread())
        return page(1)

    bench.read(a=note)
    assert threads == [threading.current_thread()]


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ScrapeError(State.NOT_FOUND, "connection refused", refused=True), State.NOT_FOUND),
        (ScrapeError(State.RESTRICTED, "HTTP 401 Unauthorized"), State.RESTRICTED),
        (ScrapeError(State.NOT_FOUND, "HTTP 404 Not Found"), State.NOT_FOUND),
    ],
)
def test_nothing_to_read_is_an_answer(error: ScrapeError, state: State) -> None:
    bench = Bench(A)
    bench.said[A] = error
    result = bench.source.read()
    assert result == NoData(state, f"e0 at {A}: {error.reason}")


@pytest.mark.parametrize("state", [State.FAILED, State.HUNG])
def test_something_broken_is_a_failure(state: State) -> None:
    bench = Bench(A)
    bench.said[A] = ScrapeError(state, "HTTP 500 Internal Server Error")
    with pytest.raises(SourceError, match=r"e0 at .*: HTTP 500"):
        bench.source.read()


def test_an_engine_that_was_there_and_refuses_now_is_gone() -> None:
    bench = Bench(A)
    bench.read(a=page(1))
    bench.said[A] = ScrapeError(State.NOT_FOUND, "connection refused", refused=True)
    result = bench.source.read()
    assert isinstance(result, NoData)
    assert result.state is State.GONE


def test_a_page_without_engine_series_is_not_all_zero() -> None:
    bench = Bench(A)
    bench.said[A] = b"process_virtual_memory_bytes 1.03e+011\n" + b"".join(
        b'python_gc_objects_collected_total{generation="%d"} 5\n' % number for number in range(9)
    )
    result = bench.source.read()
    assert result == NoData(State.NOT_FOUND, f"e0 at {A}: answers with 10 samples, 0 engine series")


def test_refused_lines_are_counted_and_the_first_is_shown(pair: Bench) -> None:
    reading = pair.read(a=page(1) + b'x{a="cd "/foo/""} 1\ny 0,5\n', b=page(1))
    assert reading.rejects == 2
    assert reading.reason.startswith(f"e0 at {A}: 2 lines refused, first line 2: neither comma")
    assert "x{a=" in reading.reason
    rows = reading.rows["engine_metrics"]
    assert isinstance(rows, list)
    assert sorted(row["rejected_lines"] for row in rows) == [0, 2]


def test_a_cut_page_is_partial(pair: Bench) -> None:
    reading = pair.read(a=page(1) + b"vllm:x 11", b=page(1))
    assert reading.reason == f"e0 at {A}: the page was cut off"


def test_an_engine_that_starts_while_it_is_waited_for_counts_from_its_first_request() -> None:
    bench = Bench(A)
    bench.said[A] = ScrapeError(State.NOT_FOUND, "connection refused", refused=True)
    bench.source.read()
    start = (bench.clock.now().wall_us + SECOND // 2) / SECOND
    told = page(7) + f"process_start_time_seconds {start!r}\n".encode()
    rows = bench.read(a=told).rows["engine_metrics"]
    assert isinstance(rows, list)
    assert rows[0]["prompt_tokens_delta"] == 7


class TestWithoutTargets:
    def test_says_what_the_ports_said_and_goes_on_probing(self) -> None:
        clock = ManualClock()

        def refuse(url: str, deadline_us: int) -> Scrape:
            del url, deadline_us
            raise ScrapeError(State.NOT_FOUND, "connection refused", refused=True)

        discovery = EngineDiscovery((), (8000,), refuse, clock)
        source = EngineMetrics(machine(clock, MemoryStore()), discovery, fetch=refuse)
        result = source.read()
        assert isinstance(result, NoData)
        assert result.state is State.NOT_FOUND
        assert "8000: connection refused" in result.reason
        assert [answer.port for answer in source.answers] == [8000]
        assert source.target_states == ()

    def test_a_port_that_refuses_for_a_while_is_asked_at_the_usual_pace(self) -> None:
        clock, asked = ManualClock(), []
        down = ScrapeError(State.NOT_FOUND, "connection refused", refused=True)

        def fetch(url: str, deadline_us: int) -> Scrape:
            del deadline_us
            asked.append(url)
            if 3 <= len(asked) <= 6:
                raise down
            return Scrape(page(1), "text/plain", cut=False)

        discovery = EngineDiscovery((), (8000,), fetch, clock)
        source = EngineMetrics(machine(clock, MemoryStore()), discovery, fetch=fetch)
        results = [source.read() for _ in range(6)]
        assert [isinstance(result, Reading) for result in results] == [
            True, False, False, False, False, True,
        ]  # fmt: skip

    def test_a_port_that_changes_hands_is_let_go(self) -> None:
        clock, said = ManualClock(), [page(1), page(1), b"other 1\n", b"other 1\n", b"other 1\n"]

        def fetch(url: str, deadline_us: int) -> Scrape:
            del url, deadline_us
            return Scrape(said.pop(0), "text/plain", cut=False)

        discovery = EngineDiscovery((), (8000,), fetch, clock)
        source = EngineMetrics(machine(clock, MemoryStore()), discovery, fetch=fetch)
        assert isinstance(source.read(), Reading)
        gone = source.read()
        assert isinstance(gone, NoData)
        assert gone.state is State.GONE
        nothing = source.read()
        assert isinstance(nothing, NoData)
        assert nothing.state is State.NOT_FOUND


def test_is_built_from_settings() -> None:
    clock = ManualClock()
    with serving([answer(page(3))]) as server:
        settings = replace(load(None, {}, {}), engines=(EngineTarget("live", server.url("")),))
        source = build(machine(clock, MemoryStore()), settings)
        reading = source.read()
        source.close()
    assert isinstance(reading, Reading)
    assert len(reading.rows["engine_metrics"]) == 1
    assert source.interval_us == SECOND


def test_never_probes_where_our_own_commands_listen() -> None:
    plain = load(None, {}, {})
    with serving([answer(page(3))]) as server:
        settings = replace(
            plain,
            collect=replace(plain.collect, listen_port=server.port),
            discovery=replace(plain.discovery, ports=(server.port,)),
        )
        source = build(machine(ManualClock(), MemoryStore()), settings)
        assert isinstance(source.read(), NoData)
        source.close()
        assert server.requests == []


def test_over_real_sockets_five_answers_at_once() -> None:
    whole = answer(page(1))
    error = answer(b"Traceback (most recent call last):\n", status="500 Internal Server Error")
    with serving([whole]) as good, serving([error]) as bad, serving([], hold=True) as mute:
        urls = [good.url(), bad.url(), mute.url(), f"http://127.0.0.1:{free_port()}/metrics"]
        named = [EngineTarget(f"e{place}", url) for place, url in enumerate(urls)]
        clock = ManualClock()
        source = EngineMetrics(
            machine(clock, MemoryStore()),
            EngineDiscovery(named, (), http_scrape.fetch, clock),
            deadline_us=SECOND // 4,
        )
        begin = time.monotonic()
        reading = source.read()
        assert measure_s(begin) < 2
        source.close()
    assert isinstance(reading, Reading)
    assert len(reading.rows["engine_metrics"]) == 1
    for part in ("HTTP 500", "no answer within 0.25 s", "connection refused"):
        assert part in reading.reason


def test_an_address_that_names_new_engines_for_ever_uses_up_no_ids() -> None:
    pages = Pages()
    for turn in range(12):
        pages.feed(
            'vllm:num_requests_running{engine="0",model_name="steady"} 1\n'
            + "".join(
                f'vllm:num_requests_running{{engine="0",model_name="m{turn}-{number}"}} 1\n'
                for number in range(100)
            )
        )
    assert len(pages.store.stored["engine"]) == 256
    assert [pages.engine_of(row["engine"])["model"] for row in pages.rows["engine_metrics"]] == [
        "steady"
    ]
    assert pages.target.losses.startswith("100 engines left out")


def test_an_engine_whose_settings_change_on_every_page_uses_up_no_ids() -> None:
    pages = Pages()
    for turn in range(300):
        pages.feed(
            f"vllm:num_requests_running{{{LABELS}}} 1\n"
            f'vllm:cache_config_info{{engine="0",block_size="{turn}"}} 1\n'
        )
    assert len(pages.store.stored["engine"]) == 256
    assert pages.target.losses.startswith("1 engines left out")
