"""The collector itself over the make-believe driver: rows in the lake, figures at /metrics."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from collector import runner
from lab.nvml.driver import FakeDriver
from stallscope.settings import Settings, load
from stallscope.storage.direct import seal_directly
from tests.nvml.sources import GB


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    flags = {
        "lake.path": str(tmp_path / "lake"),
        "host.proc": str(tmp_path / "proc"),
        "host.sys": str(tmp_path / "sys"),
        "collect.listen_port": str(port),
        "discovery.enabled": "false",
    }
    return load(None, {"HOME": str(tmp_path)}, flags)


@pytest.fixture
def host(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """Return a driver that every child of this process finds."""
    for name, value in driver.environment.items():
        monkeypatch.setenv(name, value)
    driver.gpus[0].set_rates(rx=30 * GB, tx=2 * GB)
    driver.gpus[1].set_rates(rx=1 * GB, tx=20 * GB)
    return driver


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
    give_up = time.monotonic() + 30
    while not until():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.05)


def _url(settings: Settings, path: str) -> str:
    return f"http://127.0.0.1:{settings.collect.listen_port}{path}"


def _metrics(settings: Settings) -> str:
    try:
        url = _url(settings, "/metrics")
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own address
            return str(answer.read().decode())
    except OSError:
        return ""


def _shortest_window(settings: Settings) -> float:
    """Return the shortest window of the link's rows, in seconds; a burst makes them 0.2 s."""
    shown = re.findall(
        r"^stallscope_pcie_window_seconds.* (\S+)$", _metrics(settings), re.MULTILINE
    )
    return min(map(float, shown), default=1.0)


def _order(settings: Settings, **order: int) -> None:
    request = urllib.request.Request(  # noqa: S310 - our own loopback address
        _url(settings, "/gpu"),
        json.dumps(order).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - the same
        assert answer.status == 200


def _ask(settings: Settings, question: str) -> list[tuple[object, ...]]:
    catalog = settings.lake.path / "catalog.duckdb"
    with duckdb.connect(str(catalog), read_only=True) as connection:
        return connection.execute(question).fetchall()


def test_a_run_writes_what_the_links_carry_and_ends_its_child(
    settings: Settings, host: FakeDriver
) -> None:
    with _running(settings):
        _wait(lambda: "stallscope_pcie_saturation_ratio" in _metrics(settings))
        _wait(lambda: "stallscope_gpu_power_watts" in _metrics(settings))
        _order(settings, burst_seconds=60)
        _wait(lambda: _shortest_window(settings) < 0.4)
    question = """
        SELECT name, max(rx_window_mean_bytes_per_second), max(tx_window_mean_bytes_per_second)
        FROM gpu_link JOIN device USING (device) GROUP BY 1 ORDER BY 1
    """
    [first, second] = _ask(settings, question)
    assert first == (
        host.gpus[0].uuid,
        pytest.approx(30 * GB, rel=0.1),
        pytest.approx(2 * GB, rel=0.1),
    )
    assert second == (
        host.gpus[1].uuid,
        pytest.approx(1 * GB, rel=0.1),
        pytest.approx(20 * GB, rel=0.1),
    )
    [(states,)] = _ask(settings, "SELECT count(*) FROM gpu_state WHERE power_watts = 310")
    assert isinstance(states, int)
    assert states >= 1
    assert _ask(settings, "SELECT DISTINCT outcome FROM probe_result") == [("works",)]
    assert host.inits == host.shutdowns == 1


def test_a_calibration_from_outside_is_taken_up(
    settings: Settings, host: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collector.link_ceilings._REFRESH_US", 500_000)
    del host
    with _running(settings):
        _wait((settings.lake.path / "catalog.duckdb").exists)
        _wait(lambda: _ask(settings, "SELECT 1 FROM device WHERE gpu_index = 0"))
        [(device,)] = _ask(settings, "SELECT device FROM device WHERE gpu_index = 0")
        row = {"wall_us": 1, "device": device, "direction": "rx", "kind": "calibrated"}
        place = {"link_generation": 5, "link_width": 16, "bytes_per_second": 60e9}
        seal_directly(settings.lake.path, {"link_ceiling": [row | place]})
        wanted = 'stallscope_pcie_saturation_ratio{direction="rx",gpu="0",kind="calibrated"'
        _wait(lambda: wanted in _metrics(settings))


def test_a_release_lets_go_of_the_driver_while_the_rest_runs(
    settings: Settings, host: FakeDriver
) -> None:
    with _running(settings):
        _wait(lambda: "stallscope_pcie_saturation_ratio" in _metrics(settings))
        _order(settings, release_seconds=3)
        _wait(lambda: host.shutdowns == 1)
        _wait(lambda: 'source="gpu_link",state="disabled"} 1.0' in _metrics(settings))
        _wait(lambda: host.inits == 2)
        _wait(lambda: 'source="gpu_link",state="working"} 1.0' in _metrics(settings))
