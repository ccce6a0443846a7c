from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter
from pathlib import Path

import pytest

import collector
from collector import otlp_export, registry, runner
from collector.registry import SOURCES, Entry, Links, build_source
from collector.source import Source, SourceError
from stallscope.schema import TABLES
from stallscope.settings import Settings, load
from tests.collector.fake_machine import FakeMachine

_TESTS = Path(__file__).resolve().parent
_MACHINERY = {registry.BrokenSource, runner.CatalogSource, otlp_export.OtlpExport}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(None, {"HOME": str(tmp_path)}, {})


@pytest.fixture
def built(tmp_path: Path, settings: Settings) -> dict[str, Source]:
    machine = FakeMachine(tmp_path / "machine").machine
    links = Links()
    return {entry.name: build_source(entry, machine, settings, links) for entry in SOURCES}


def _written_sources() -> dict[str, str]:
    """Return (file, name) of every class under collector/ that has the shape of a source."""
    found = {}
    for info in pkgutil.iter_modules(collector.__path__):
        module = importlib.import_module(f"collector.{info.name}")
        for _, kind in inspect.getmembers(module, inspect.isclass):
            shaped = all(hasattr(kind, name) for name in ("tables", "name", "read", "close"))
            here = kind.__module__ == module.__name__
            if shaped and here and kind is not Source and kind not in _MACHINERY:
                found[info.name] = str(getattr(kind, "name", ""))
    return found


def test_every_source_that_is_written_is_registered_once() -> None:
    assert Counter(_written_sources().values()) == Counter(entry.name for entry in SOURCES)


def test_a_source_is_called_like_its_file() -> None:
    assert {file: name for file, name in _written_sources().items() if file != name} == {}


def test_every_source_can_be_made_and_keeps_its_name(built: dict[str, Source]) -> None:
    assert [source.name for source in built.values()] == list(built)
    assert not [name for name, source in built.items() if type(source) in _MACHINERY]


def test_every_table_of_a_source_is_in_the_schema_and_has_one_writer(
    built: dict[str, Source],
) -> None:
    tables = Counter(table for source in built.values() for table in source.tables)
    assert set(tables) <= set(TABLES)
    shared = {"request", "request_name"}  # told by taps and by traces; column level says which
    assert {table for table, writers in tables.items() if writers > 1} <= shared


def test_every_source_has_a_pace_and_a_deadline(built: dict[str, Source]) -> None:
    for source in built.values():
        assert source.interval_us > 0
        assert source.deadline_us >= 100_000


@pytest.mark.parametrize("name", [entry.name for entry in SOURCES])
def test_every_source_has_tests_and_reads_a_recording(name: str) -> None:
    assert list(_TESTS.glob(f"test_{name}*.py"))
    recorded = [
        path.name
        for path in _TESTS.glob("test_*.py")
        if path != Path(__file__)
        and "captures" in (text := path.read_text(encoding="utf-8"))
        and f"from collector.{name} import" in text
    ]
    assert recorded, f"no test runs {name} on what lies in tests/captures"


def test_paces_come_from_the_settings(tmp_path: Path) -> None:
    flags = {
        "sources.block_interval_ms": "250",
        "sources.host_interval_ms": "500",
        "sources.process_interval_ms": "2000",
        "sources.scrape_interval_ms": "10000",
        "sources.gpu_interval_ms": "5000",
    }
    settings = load(None, {"HOME": str(tmp_path)}, flags)
    machine = FakeMachine(tmp_path / "machine").machine
    paces = {
        entry.name: build_source(entry, machine, settings, Links()).interval_us for entry in SOURCES
    }
    assert paces["block_device"] == 250_000
    assert paces["host_pressure"] == 500_000
    assert paces["engine_process"] == 2_000_000
    assert paces["engine_metrics"] == 10_000_000
    assert paces["gpu_link"] == paces["gpu_state"] == 5_000_000


def test_gpu_sources_share_one_child_and_one_set_of_requests(
    tmp_path: Path, settings: Settings
) -> None:
    machine = FakeMachine(tmp_path / "machine")
    links = Links()
    made = {entry.name: build_source(entry, machine.machine, settings, links) for entry in SOURCES}
    process = links.nvml
    assert process is not None
    links.gpu_requests.burst(5, machine.clock.mono_us)
    assert made["gpu_link"].interval_us == 200_000
    for source in made.values():
        source.close()
    assert links.join_nvml(machine.clock) is process


def test_a_source_that_cannot_be_made_fails_with_the_reason(
    tmp_path: Path, settings: Settings
) -> None:
    def build(*_: object) -> Source:
        raise ImportError("no module named pynvml")

    machine = FakeMachine(tmp_path / "machine").machine
    source = build_source(Entry("gpu_link", build), machine, settings, Links())
    assert source.name == "gpu_link"
    with pytest.raises(SourceError, match="no module named pynvml"):
        source.read()
    source.close()
