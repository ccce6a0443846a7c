"""`stallscope doctor` and `collect --once`: every source, this installation, and what it means."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.registry import SOURCES
from stallscope import cli
from stallscope.commands import installation
from stallscope.commands.checks import exit_status
from stallscope.settings import Settings, load
from stallscope.storage.layout import create_lake


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


class _Alive(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        del words


@pytest.fixture
def alive() -> Iterator[int]:
    with http.server.HTTPServer(("127.0.0.1", 0), _Alive) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def _settings(lake: Path, **flags: object) -> Settings:
    return load(None, {"HOME": "/h"}, {"lake.path": lake, **flags})


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ([], 0),
        (["working", "partial", "late"], 0),
        (["not_found", "not_applicable", "unsupported", "disabled"], 0),
        (["working", "restricted"], 1),
        (["failed"], 1),
        (["hung"], 1),
        (["gone"], 1),
    ],
)
def test_absent_is_fine_and_broken_or_forbidden_is_not(states: list[str], status: int) -> None:
    assert exit_status(states) == status


def test_doctor_speaks_of_every_source_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["doctor", "--json", "--lake", str(tmp_path / "lake"),
             "--set", "discovery.enabled=false"]  # fmt: skip
    assert cli.main(words) in {0, 1}
    told = json.loads(capsys.readouterr().out)
    assert all(set(check) == {"source", "state", "reason", "hint"} for check in told)
    named = {check["source"] for check in told}
    assert {entry.name for entry in SOURCES} <= named
    assert {"settings", "lake", "lake_space", "port_collect", "port_dashboard"} <= named
    assert not (tmp_path / "lake").exists(), "doctor only looks"


def test_doctor_tells_people_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["doctor", "--lake", str(tmp_path / "lake"), "--set", "discovery.enabled=false"])
    said = capsys.readouterr().out
    assert f"lake              not_found: no lake yet at {tmp_path / 'lake'}" in said
    assert "stallscope up makes it." in said


def test_one_reading_of_every_source_is_printed_and_nothing_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["collect", "--once", "--json", "--lake", str(tmp_path / "lake"),
             "--set", "discovery.enabled=false"]  # fmt: skip
    assert cli.main(words) in {0, 1}
    told = json.loads(capsys.readouterr().out)
    assert [report["source"] for report in told] == [entry.name for entry in SOURCES]
    pressure = next(report for report in told if report["source"] == "host_pressure")
    if pressure["state"] == "working":
        (row, *_) = pressure["rows"]["host_pressure"]
        assert row["scope"] == "system"
        assert row["wall_us"] > 1_700_000_000_000_000
    assert not (tmp_path / "lake").exists()


def test_a_lake_that_is_there_is_fine(tmp_path: Path) -> None:
    create_lake(tmp_path / "lake")
    check = installation.check_lake(tmp_path / "lake")
    assert (check.state, check.reason) == ("working", f"{tmp_path / 'lake'} with 0 segments")


def test_a_damaged_lake_is_a_failure(tmp_path: Path) -> None:
    create_lake(tmp_path / "lake")
    (tmp_path / "lake/lake.json").write_text("{", encoding="utf-8")
    assert installation.check_lake(tmp_path / "lake").state == "failed"


def test_a_file_in_the_way_of_the_lake_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    check = installation.check_lake(tmp_path / "file" / "lake")
    assert (check.state, check.reason) == ("failed", f"{tmp_path / 'file'} is not a folder")


def test_a_forbidden_folder_is_said_to_be_forbidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests may run as root, to whom nothing is forbidden: so the answer of the kernel is given.
    monkeypatch.setattr(installation, "may_write", lambda _: False)
    assert installation.check_lake(tmp_path / "lake").state == "restricted"
    create_lake(tmp_path / "lake")
    assert installation.check_lake(tmp_path / "lake").state == "restricted"


@pytest.mark.parametrize(
    ("free", "state"), [(499_999_999, "failed"), (500_000_000, "partial"),
                        (9_999_999_999, "partial"), (10_000_000_000, "working")],
)  # fmt: skip
def test_free_space_is_held_against_what_raw_rows_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: str
) -> None:
    monkeypatch.setattr(installation, "free_bytes", lambda _: free)
    assert installation.check_space(_settings(tmp_path / "lake").lake).state == state


def test_a_port_that_somebody_else_has_is_a_failure_with_another_to_take(taken: int) -> None:
    check = installation.check_port("p", ("127.0.0.1", taken), "/healthz", "collect.listen_port")
    assert check.state == "failed"
    assert check.reason == f"port {taken} on 127.0.0.1 is taken by another program"
    assert check.hint == f"Choose another: --set collect.listen_port={taken + 1}"


def test_a_port_that_we_have_ourselves_is_fine(alive: int) -> None:
    check = installation.check_port("p", ("127.0.0.1", alive), "/healthz", "collect.listen_port")
    assert (check.state, check.reason) == ("working", f"{alive} answers: it runs already")


def test_a_kernel_without_landlock_is_told_and_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installation, "landlock_version", lambda: 0)
    assert installation.check_sandbox().state == "unsupported"


def test_missing_pages_are_told_and_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "find_spec", lambda _: None)
    check = installation.check_dashboard()
    assert check.state == "not_found"
    assert ".[dashboard]" in check.hint
