from __future__ import annotations

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector import registry, runner
from collector.registry import SOURCES, Entry
from collector.source import NoData, Reading, State
from stallscope.errors import LakeError
from stallscope.settings import Settings, load
from stallscope.storage.publisher import Publisher
from tests.collector.fake_machine import FakeMachine, disk_line
from tests.collector.stand_ins import ScriptedSource, one_row


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    made = FakeMachine(tmp_path / "machine")
    made.show_disks(disk_line("nvme0n1", reads=5, read_ms=3))
    made.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\n")
    for resource in ("cpu", "memory", "io"):
        line = "avg10=0.00 avg60=0.00 avg300=0.00 total=77\n"
        made.write(f"proc/pressure/{resource}", f"some {line}full {line}")
    return made


@pytest.fixture
def settings(tmp_path: Path, machine: FakeMachine) -> Settings:
    flags = {
        "lake.path": str(tmp_path / "lake"),
        "host.name": "host-1",
        "host.proc": str(machine.proc),
        "host.sys": str(machine.sys),
        "collect.listen_port": str(_free_port()),
        "discovery.enabled": "false",
        "taps.enabled": "false",
    }
    return load(None, {"HOME": str(tmp_path)}, flags)


def _change(machine: FakeMachine, line: str) -> None:
    """Overwrite the disk's line at once: a file that is cut first is seen empty by a reader."""
    with (machine.proc / "diskstats").open("r+b", buffering=0) as file:
        file.write(f"{line}\n".encode())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def _running(settings: Settings) -> Iterator[None]:
    stop = threading.Event()
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(runner.run(settings, (), stop)))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    assert statuses == [0]


def _wait(until: Callable[[], object]) -> None:
    give_up = time.monotonic() + 20
    while not until():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.05)


def _get(settings: Settings, path: str) -> str:
    url = f"http://127.0.0.1:{settings.collect.listen_port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as refusal:
        with refusal:
            return str(refusal.read().decode())
    except OSError:
        return ""


def _ask(settings: Settings, question: str) -> list[tuple[object, ...]]:
    catalog = settings.lake.path / "catalog.duckdb"
    with duckdb.connect(str(catalog), read_only=True) as connection:
        return connection.execute(question).fetchall()


def test_a_run_reads_shows_and_seals_what_the_machine_has(
    settings: Settings, machine: FakeMachine
) -> None:
    with _running(settings):
        _wait(lambda: _get(settings, "/readyz") == "ready\n")
        _wait(lambda: 'stallscope_nvme_queue_mean{device="nvme0n1"}' in _metrics(settings))
        _change(machine, disk_line("nvme0n1", reads=9, read_ms=7, in_flight=3))
        _wait(lambda: 'stallscope_nvme_io_in_flight{device="nvme0n1"} 3.0' in _metrics(settings))
        assert 'host="host-1"' in _metrics(settings)
        assert _get(settings, "/healthz") == "alive\n"
    [disk] = _ask(settings, "SELECT device, name FROM device")
    assert disk[1] == "nvme0n1"
    [reads] = _ask(settings, f"SELECT sum(reads) FROM block_device WHERE device = {disk[0]}")
    assert reads == (4,)
    sources = _ask(settings, "SELECT DISTINCT source FROM source_health")
    expected = {*(entry.name for entry in SOURCES), "collector", "storage", "catalog"}
    assert {source for (source,) in sources} == expected


def test_the_last_second_is_sealed_and_published(settings: Settings) -> None:
    with _running(settings):
        _wait(lambda: _get(settings, "/healthz"))
        stopped_us = time.time_ns() // 1_000
    [(newest,)] = _ask(settings, "SELECT max(wall_us) FROM source_health")
    assert isinstance(newest, int)
    assert newest >= stopped_us
    assert list((settings.lake.path / "journal/collect").glob("*.journal")) == []


def test_every_metric_of_the_page_is_read_by_the_official_parser(settings: Settings) -> None:
    with _running(settings):
        _wait(lambda: "stallscope_collector_source_up" in _metrics(settings))
        families = list(text_string_to_metric_families(_metrics(settings)))
    names = {family.name for family in families}
    assert {"stallscope_build_info", "stallscope_pressure_ratio"} <= names


def test_a_second_run_keeps_the_ids(settings: Settings) -> None:
    for _ in range(2):
        with _running(settings):
            _wait(lambda: "stallscope_nvme_io_in_flight" in _metrics(settings))
    assert _ask(settings, "SELECT count(*), count(DISTINCT device) FROM device") == [(1, 1)]
    starts = _ask(settings, "SELECT count(*) FROM clock_event WHERE kind = 'start'")
    assert starts == [(2,)]


def test_a_second_collector_on_a_lake_is_refused(settings: Settings) -> None:
    with _running(settings):
        _wait(lambda: _get(settings, "/healthz"))
        with pytest.raises(LakeError):
            runner.run(settings, (), threading.Event())
        assert _get(settings, "/healthz") == "alive\n"


def test_a_taken_port_leaves_the_rest_running(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    port = settings.collect.listen_port
    with socket.create_server(("127.0.0.1", port)), _running(settings):
        _wait((settings.lake.path / "catalog.duckdb").exists)
    assert f"port {port} on 127.0.0.1 cannot be listened on" in caplog.text
    assert _ask(settings, "SELECT count(*) > 0 FROM source_health") == [(True,)]


def test_sources_that_break_hang_or_cannot_be_made_are_rows_like_others(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def hang() -> Reading | NoData:
        release.wait(20)
        return one_row()

    def refuse(*_: object) -> ScriptedSource:
        raise ImportError("no pynvml")

    made = {
        "hung": ScriptedSource([hang], name="hung", deadline_us=100_000),
        "none": ScriptedSource([lambda: NoData(State.UNSUPPORTED, "too old")], name="none"),
    }
    entries = [
        *(Entry(name, _always(source)) for name, source in made.items()),
        Entry("unmade", refuse),
    ]
    monkeypatch.setattr(runner, "SOURCES", entries)
    with _running(settings):
        _wait(lambda: 'source="hung",state="hung"' in _metrics(settings))
        _wait(lambda: 'source="unmade",state="failed"' in _metrics(settings))
        release.set()
    question = "SELECT source, any_value(reason) FROM source_health GROUP BY 1"
    rows = {source: reason for source, reason in _ask(settings, question)}  # noqa: C416
    assert rows["none"] == "too old"
    assert "no pynvml" in str(rows["unmade"])


def test_a_catalog_that_cannot_be_published_is_a_state_and_no_end(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: Publisher) -> bool:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full, _running(settings):
        full.setattr(Publisher, "publish_if_changed", refuse)
        _wait(lambda: 'source="catalog",state="failed"' in _metrics(settings))
        assert "No space left on device" in caplog.text
        assert "the catalog" in _get(settings, "/readyz")


def test_one_reading_of_everything_needs_no_lake(settings: Settings) -> None:
    reports = runner.read_once(settings)
    assert [report.source for report in reports] == [entry.name for entry in SOURCES]
    assert not settings.lake.path.exists()
    by_name = {report.source: report for report in reports}
    [disk] = by_name["block_device"].rows["block_device"]
    assert disk["window_us"] is not None
    assert by_name["block_device"].rows["device"][0]["name"] == "nvme0n1"
    [pressure] = by_name["host_pressure"].rows["host_pressure"]
    assert pressure["cpu_some_ratio"] == 0
    assert by_name["engine_process"].state is State.NOT_FOUND
    assert all(report.hint for report in reports)


def test_the_engines_cgroups_reach_host_pressure(settings: Settings, machine: FakeMachine) -> None:
    links = registry.Links()
    sources = {
        entry.name: registry.build_source(entry, machine.machine, settings, links)
        for entry in SOURCES
    }
    links.engine_cgroups = lambda: ("/engine",)
    machine.write("sys/fs/cgroup/cgroup.controllers", "cpu memory io\n")
    line = "avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
    for resource in ("cpu", "memory", "io"):
        machine.write(f"sys/fs/cgroup/engine/{resource}.pressure", f"some {line}full {line}")
    reading = sources["host_pressure"].read()
    assert isinstance(reading, Reading)
    scopes = [row["scope"] for row in reading.rows["host_pressure"] if isinstance(row, dict)]
    assert scopes == ["system", "/engine"]


def _always(source: ScriptedSource) -> registry.Build:
    return lambda *_: source


def _metrics(settings: Settings) -> str:
    return _get(settings, "/metrics")


def test_an_end_on_a_disk_that_refuses_does_not_claim_that_all_is_sealed(
    settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stallscope.storage.writer.seal", refuse)
    stop = threading.Event()
    threading.Timer(1.5, stop.set).start()
    with caplog.at_level("INFO"):
        assert runner.run(settings, (), stop) == 0
    assert "everything is sealed" not in caplog.text
    assert "the next start seals the last" in caplog.text
