"""From an engine's page to ours: the same observations, and none once the engine is gone."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector import runner
from stallscope.settings import EngineTarget, Settings, load

_LABELS = {"engine": "chat", "model": "tiny", "rank": "0"}


def _page(within_10_ms: int, within_25_ms: int, total: int, hits: int, queries: int) -> bytes:
    labels = 'engine="0",model_name="tiny"'
    name = "vllm:inter_token_latency_seconds"
    return f"""\
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7e9
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{{labels}}} 2.0
# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total{{{labels}}} {queries}
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total{{{labels}}} {hits}
# TYPE {name} histogram
{name}_bucket{{{labels},le="0.01"}} {within_10_ms}
{name}_bucket{{{labels},le="0.025"}} {within_25_ms}
{name}_bucket{{{labels},le="+Inf"}} {total}
{name}_count{{{labels}}} {total}
{name}_sum{{{labels}}} {total * 0.016}
""".encode()


class _Engine:
    """Something that answers at /metrics."""

    def __init__(self, page: bytes) -> None:
        engine = self
        self.page = page
        self.scrapes = 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                engine.scrapes += 1
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(engine.page)))
                self.end_headers()
                self.wfile.write(engine.page)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def engine() -> Iterator[_Engine]:
    running = _Engine(_page(100, 400, 500, hits=1_000, queries=9_000))
    yield running
    running.stop()


@pytest.fixture
def settings(tmp_path: Path, engine: _Engine) -> Iterator[Settings]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    flags = {"lake.path": str(tmp_path / "lake"), "collect.listen_port": port}
    flags |= {"taps.enabled": "false"}
    loaded = load(None, {"HOME": str(tmp_path)}, flags)
    wanted = dataclasses.replace(loaded, engines=(EngineTarget("chat", engine.url),))
    stop = threading.Event()
    thread = threading.Thread(target=runner.run, args=(wanted, (), stop))
    thread.start()
    yield wanted
    stop.set()
    thread.join(30)
    assert not thread.is_alive()


def _value(settings: Settings, name: str, **labels: str) -> float | None:
    url = f"http://127.0.0.1:{settings.collect.listen_port}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return None
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return None


def _wait(until: Callable[[], object]) -> None:
    give_up = time.monotonic() + 20
    while not until():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.05)


def _see_another_page(engine: _Engine, settings: Settings) -> None:
    """Wait for a first scrape, change the page, wait until that is scraped too."""
    _wait(lambda: _value(settings, "stallscope_engine_requests", **_LABELS, state="running"))
    engine.page = _page(150, 500, 700, hits=1_300, queries=10_000)
    _wait(lambda: _value(settings, "stallscope_itl_seconds_count", **_LABELS))


def test_what_was_observed_since_the_start_is_shown_exactly(
    engine: _Engine, settings: Settings
) -> None:
    _see_another_page(engine, settings)
    bucket = "stallscope_itl_seconds_bucket"
    counts = [_value(settings, bucket, **_LABELS, le=bound) for bound in ("0.01", "0.025", "+Inf")]
    assert counts == [50, 100, 200]
    assert _value(settings, "stallscope_itl_seconds_sum", **_LABELS) == 3.2
    # 300 of 1000 tokens; the 1000 of 9000 before the start are not ours to tell.
    assert _value(settings, "stallscope_kv_hit_ratio", **_LABELS, tier="device") == 0.3
    assert _value(settings, "stallscope_collector_source_up", source="engine_metrics") == 1


def test_an_engine_that_is_gone_has_no_series_and_a_state(
    engine: _Engine, settings: Settings
) -> None:
    _see_another_page(engine, settings)
    engine.stop()
    _wait(lambda: _value(settings, "stallscope_collector_source_up", source="engine_metrics") == 0)
    _wait(
        lambda: _value(settings, "stallscope_engine_requests", **_LABELS, state="running") is None
    )
    assert _value(settings, "stallscope_itl_seconds_count", **_LABELS) is None
