"""`stallscope settings`, and how options become settings, also for children."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytest

from stallscope import cli
from stallscope.commands import options
from stallscope.settings import find_file, load
from stallscope.storage.layout import create_lake


def _parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    options.add_settings_options(parser)
    return parser.parse_args(words)


def test_the_example_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["settings", "--example"]) == 0
    assert "[lake]\n" in capsys.readouterr().out


def test_what_is_in_force_is_printed_with_its_origin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s.toml"
    file.write_text("[sql]\nmemory_mb = 256\n", encoding="utf-8")
    monkeypatch.setenv("STALLSCOPE_SQL_TIMEOUT_S", "7")
    words = ["settings", "--check", "--json", "--config", str(file), "--lake", "/my/lake"]
    assert cli.main(words) == 0
    told = json.loads(capsys.readouterr().out)
    rows = {row["key"]: (row["value"], row["origin"]) for row in told["settings"]}
    assert told["file"] == str(file)
    assert told["problems"] == []
    assert rows["sql.memory_mb"] == (256, f"{file}:2")
    assert rows["sql.timeout_s"] == (7, "environment STALLSCOPE_SQL_TIMEOUT_S")
    assert rows["lake.path"] == ("/my/lake", "flag")
    assert rows["dashboard.port"] == (8501, "default")


def test_a_wrong_file_is_a_problem_found_and_a_missing_one_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.toml"
    file.write_text("[sql]\nmemory_md = 256\ntimeout_s = 0\n", encoding="utf-8")
    assert cli.main(["settings", "--check", "--config", str(file)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(" ")[2].partition(": ")[0] for line in said] == [
        f"{file}:2",
        f"{file}:3",
    ]
    assert cli.main(["settings", "--check", "--config", str(tmp_path / "none")]) == 2


def test_children_get_the_same_settings_by_options_and_by_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text("[lake]\nraw_hours = 9\n", encoding="utf-8")
    words = ["--config=s.toml", "--lake=/l", "--engine=a=http://h:1", "--engine=http://h:2"]
    words += ["--set=sql.timeout_s=5", "--set=host.name=a=b"]
    parsed = _parsed(*words)
    settings = options.load_settings(parsed)
    assert settings.lake.raw_hours == 9
    assert [engine.name for engine in settings.engines] == ["a", "h:2"]
    assert settings.host.name == "a=b"

    again = options.load_settings(_parsed(*options.forwarded(parsed)))
    assert again == settings

    environment = {**os.environ, **options.as_environment(parsed)}
    monkeypatch.chdir("/")
    assert load(find_file(environment), environment, {}) == settings


def test_who_has_no_lake_of_his_own_reads_the_one_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service = tmp_path / "service"
    create_lake(service)
    monkeypatch.setattr(options, "SERVICE_LAKE", service)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert options.lake_to_read(_parsed())[0] == service
    assert f"reading {service}" in capsys.readouterr().err
    assert options.lake_to_read(_parsed("--lake", "/named"))[0] == Path("/named")
    own = tmp_path / "home/.local/state/stallscope"
    create_lake(own)
    assert options.lake_to_read(_parsed())[0] == own
