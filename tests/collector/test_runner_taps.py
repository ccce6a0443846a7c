"""From a tap's datagram through the collector into the lake, and what it makes of the scrape."""

from __future__ import annotations

import dataclasses
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import duckdb
import pytest

from collector import runner
from collector.source import State
from lab.synthetic.tap_datagrams import TapSender
from stallscope.settings import EngineTarget, Settings, load

_PAGE = b"""\
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7e9
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 2.0
"""


class _Engine:
    """Something that answers at /metrics and counts how often it was asked."""

    def __init__(self) -> None:
        engine = self
        self.scrapes = 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                engine.scrapes += 1
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(_PAGE)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.port = int(self._server.server_address[1])

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def engine() -> Iterator[_Engine]:
    running = _Engine()
    yield running
    running.stop()


@pytest.fixture
def settings(tmp_path: Path, engine: _Engine) -> Iterator[Settings]:
    with tempfile.TemporaryDirectory(prefix="tap-") as folder:
        flags = {
            "lake.path": str(tmp_path / "lake"),
            "host.name": "host-1",
            "collect.listen_port": _free_port(),
            "taps.socket": f"{folder}/run/tap.sock",
            "sources.scrape_interval_ms": "100",
            "sources.tapped_scrape_interval_ms": "60000",
        }
        loaded = load(None, {"HOME": str(tmp_path)}, flags)
        address = EngineTarget("chat", f"http://127.0.0.1:{engine.port}")
        yield dataclasses.replace(loaded, engines=(address,))


def _free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return str(probe.getsockname()[1])


@contextmanager
def _running(settings: Settings) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=runner.run, args=(settings, (), stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


def _wait(until: Callable[[], object]) -> None:
    give_up = time.monotonic() + 20
    while not until():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.02)


def _ask(settings: Settings, question: str) -> list[tuple[object, ...]]:
    catalog = settings.lake.path / "catalog.duckdb"
    with duckdb.connect(str(catalog), read_only=True) as connection:
        return connection.execute(question).fetchall()


class _Tap:
    """Sends to a collector that may still be starting."""

    def __init__(self, settings: Settings, port: int) -> None:
        self._path = str(settings.taps.socket)
        self._sender = TapSender(facts={"port": port, "model": "tiny", "pid": 1})

    def step(self, gap_us: int) -> None:
        """Tell of a step and of one request's chunk and end in it."""
        wall_us, mono_us = time.time_ns() // 1_000, time.monotonic_ns() // 1_000
        chunks = {"request": ("I", [4]), "chunk_index": ("I", [1])}
        told = [{"source": "asgi", "number": 4, "id": "cmpl-x", "finish": "stop"}]
        told.append({"source": "stats", "id": "cmpl-x-0", "engine": 0, "finish": "stop"})
        self._send(
            self._sender.steps(
                {
                    "engine": ("B", [0]),
                    "main": ("B", [1]),
                    "engine_mono_us": ("q", [mono_us]),
                    "itl_us": ("I", [gap_us]),
                    "outputs": ("I", [8]),
                },
                wall_us,
                mono_us,
                [(0, wall_us, 70_000)],
            )
        )
        self._send(
            self._sender.gaps(
                {**chunks, "mono_us": ("q", [mono_us]), "itl_us": ("I", [gap_us + 1])},
                wall_us,
                mono_us,
            )
        )
        self._send(self._sender.requests(told, wall_us, mono_us))

    def _send(self, data: bytes) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            _wait(lambda: sender.connect_ex(self._path) == 0)
            sender.send(data)


def test_steps_chunks_and_requests_are_sealed_with_the_engine_of_the_scrape(
    settings: Settings, engine: _Engine
) -> None:
    tap = _Tap(settings, engine.port)
    with _running(settings):
        _wait(lambda: engine.scrapes > 0)
        tap.step(9_000)
        _wait((settings.lake.path / "segments/token_gap").is_dir)
    assert _ask(settings, "SELECT name, rank, model FROM engine") == [("chat", "0", "tiny")]
    steps = _ask(
        settings, "SELECT itl_us, outputs, outlier FROM engine_step JOIN engine USING (engine)"
    )
    assert steps == [(9_000, 8, False)]
    assert _ask(settings, "SELECT itl_us FROM token_gap JOIN engine USING (engine)") == [(9_001,)]
    assert _ask(settings, "SELECT ttft_us FROM first_token") == [(70_000,)]
    levels = "SELECT level FROM request JOIN request_name USING (request) ORDER BY ALL"
    assert _ask(settings, levels) == [("gap",), ("step",)]
    assert _ask(settings, "SELECT count(*), count(DISTINCT request) FROM request_name") == [(1, 1)]
    histogram = "SELECT level, sum(observations) FROM itl_1s GROUP BY ALL ORDER BY ALL"
    assert _ask(settings, histogram) == [("gap", 1), ("step", 8)]
    assert not settings.taps.socket.exists()


def test_the_page_of_an_engine_with_a_live_tap_is_left_alone(
    settings: Settings, engine: _Engine, caplog: pytest.LogCaptureFixture
) -> None:
    tap = _Tap(settings, engine.port)
    with caplog.at_level("INFO"), _running(settings):
        tap.step(9_000)
        _wait(lambda: "chat is read every 60 s, its tap tells more" in caplog.text)
        seen = engine.scrapes
        time.sleep(0.5)
        assert engine.scrapes <= seen + 1
    states = _ask(
        settings, "SELECT DISTINCT state FROM source_health WHERE source = 'engine_metrics'"
    )
    assert states == [("working",)]


def test_one_reading_beside_a_collector_takes_nothing_from_it(
    settings: Settings, engine: _Engine
) -> None:
    with _running(settings):
        _wait(settings.taps.socket.exists)
        by_name = {report.source: report for report in runner.read_once(settings)}
        for source in ("engine_steps", "token_gaps"):
            assert by_name[source].state is State.NOT_APPLICABLE
            assert "another process listens" in by_name[source].reason
        _Tap(settings, engine.port).step(9_000)
        _wait((settings.lake.path / "segments/engine_step").is_dir)


def test_one_reading_without_a_collector_leaves_no_socket(settings: Settings) -> None:
    by_name = {report.source: report for report in runner.read_once(settings)}
    assert by_name["token_gaps"].state is State.NOT_FOUND
    assert "pip install" in by_name["token_gaps"].hint
    assert not settings.taps.socket.parent.exists()
