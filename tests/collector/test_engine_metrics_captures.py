"""Every recorded page through the source as it is built for a run, HTTP included."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from collector.engine_metrics import build
from collector.source import Reading
from stallscope.settings import EngineTarget, load
from tests.collector.fake_machine import FakeMachine
from tests.conftest import REPO

_CAPTURES = sorted((REPO / "tests/captures/metrics").glob("*.txt"))


@contextmanager
def _serving(page: bytes) -> Iterator[str]:
    kind = "application/openmetrics-text" if page.endswith(b"# EOF\n") else "text/plain"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("capture", _CAPTURES, ids=lambda path: path.stem)
def test_a_recorded_page_gives_a_row_per_engine_and_no_reject(
    capture: Path, tmp_path: Path
) -> None:
    page = capture.read_bytes()
    ranks = {line.split(b'engine="')[1].split(b'"')[0] for line in page.splitlines()
             if line.startswith(b"vllm:num_requests_running{")}  # fmt: skip
    with _serving(page) as url:
        settings = dataclasses.replace(
            load(None, {"HOME": str(tmp_path)}, {}), engines=(EngineTarget("chat", url),)
        )
        machine = FakeMachine(tmp_path / "machine")
        source = build(machine.machine, settings)
        reading = source.read()
        source.close()
    assert isinstance(reading, Reading)
    assert (reading.rejects, reading.reason) == (0, "")
    assert len(reading.rows["engine_metrics"]) == len(ranks) >= 1
    stored = {str(row["rank"]).encode() for row in machine.store.stored["engine"]}
    assert stored == ranks


def test_there_are_recordings() -> None:
    assert len(_CAPTURES) >= 10
