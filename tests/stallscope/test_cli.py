"""The command line as a whole: words in, exit status and lines out, never a traceback."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from stallscope import cli
from stallscope.commands import doctor
from stallscope.storage.layout import create_lake
from tests.project.checkout import REPO


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    create_lake(tmp_path / "lake")
    return tmp_path / "lake"


def _run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stallscope.cli", *words],
        cwd=REPO,
        env={**os.environ, **environment},
        capture_output=True,
        encoding="latin-1",  # reads any bytes
        check=False,
    )


def test_without_words_it_shows_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    for name in ("up", "collect", "dashboard", "doctor", "sql", "lake", "settings"):
        assert re.search(rf"^  {name} ", said.err, re.MULTILINE)


def test_help_is_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: stallscope COMMAND")


def test_the_release_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert re.fullmatch(r"stallscope (\d+\.\d+\.\d+\S*|unknown)\n", capsys.readouterr().out)


def test_an_unknown_command_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["colect"]) == 2
    assert capsys.readouterr().err == (
        "stallscope: There is no command 'colect'. Did you mean collect?\n"
    )


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_explains_itself_and_takes_lake_and_config(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: stallscope {name}")
    assert "--lake DIR" in said
    assert "--config FILE" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sql", "SELECT 1", "--lake", "/nowhere"], "no lake at /nowhere"),
        (["lake", "status", "--lake", "/nowhere"], "no lake at /nowhere"),
        (["lake", "verify", "--lake", "/nowhere"], "no lake at /nowhere"),
        (["sql", "SELECT 1", "--set", "sql.memory"], "--set sql.memory: want KEY=VALUE"),
        (["doctor", "--set", "lake.pth=x"], "unknown setting lake.pth. Did you mean lake.path?"),
        (["up", "--config", "/nowhere.toml"], "cannot read settings from /nowhere.toml"),
        (["collect", "--json"], "--json needs --once"),
        (["collect", "--engine", "nonsense"], "want an address such as"),
        (["collect", "--lake", "/proc/nowhere"], "cannot write the lake /proc/nowhere"),
        (["sql", "SELECT 1", "--out", "x.docx"], "the name does not tell the format"),
        (["dashboard", "--set", "dashboard.address=0.0.0.0"], "is not a loopback address"),
    ],
)
def test_what_cannot_run_says_so_on_one_line_and_ends_with_2(words: list[str], said: str) -> None:
    result = _run(*words)
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.startswith("stallscope: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_mistake_of_ours_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: object) -> int:
        raise ZeroDivisionError(f"by {type(arguments).__name__}")

    monkeypatch.setattr(doctor, "run", fail)
    assert cli.main(["doctor"]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(
        r"stallscope: internal error, please report it: ZeroDivisionError: by Namespace "
        r"\(test_cli\.py:\d+\)\n",
        said,
    )


def test_what_the_system_denies_is_no_mistake_of_ours(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_space(**words: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device", f"/temporary/{words['prefix']}")

    monkeypatch.setattr(tempfile, "mkdtemp", no_space)
    assert cli.main(["sql", "SELECT 1", "--lake", str(lake)]) == 2
    assert capsys.readouterr().err == (
        "stallscope: /temporary/stallscope-sql-: No space left on device\n"
    )


def test_an_interrupt_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(arguments: object) -> int:
        raise KeyboardInterrupt(arguments)

    monkeypatch.setattr(doctor, "run", interrupt)
    assert cli.main(["doctor"]) == 130
    assert capsys.readouterr().err == "stallscope: interrupted\n"


def test_a_reader_who_has_seen_enough_is_no_error(lake: Path) -> None:
    command = (
        f"{sys.executable} -m stallscope.cli sql 'FROM range(2000000)' --format csv"
        f" --lake {lake} | head -n 2; echo ${{PIPESTATUS[0]}}"
    )
    result = subprocess.run(
        ["bash", "-c", command], cwd=REPO, capture_output=True, text=True, check=False
    )
    assert result.stdout == '"range"\n0\n0\n'
    assert result.stderr == ""


def test_a_terminal_that_is_not_utf_8_gets_a_table_all_the_same(lake: Path) -> None:
    result = _run("sql", "SELECT 'ä€' AS x", "--lake", str(lake),
                  PYTHONIOENCODING="latin-1")  # fmt: skip
    assert result.returncode == 0
    assert "ä\\u20ac" in result.stdout


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (["settings", "--example"], {"duckdb", "pyarrow", "streamlit", "collector"}),
        (["collect", "--help"], {"streamlit", "dashboard", "polars", "pandas"}),
    ],
)
def test_a_command_loads_only_its_own_part(words: list[str], unwanted: set[str]) -> None:
    program = (
        "import sys\nfrom stallscope.cli import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit:\n    pass\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=REPO, capture_output=True, text=True, check=True
    )
    assert set(result.stderr.split()) & unwanted == set()


def test_streams_that_were_closed_before_the_start_take_no_file_of_the_lake(tmp_path: Path) -> None:
    listing = (
        "import os, sys; from stallscope import cli; cli.main(['--version']); "
        f"place = open({str(tmp_path / 'numbers')!r}, 'w'); "
        "place.write(' '.join([str(place.fileno() > 2), *(os.readlink(f'/proc/self/fd/{n}') "
        "for n in range(3))]))"
    )
    ended = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, listing],
        cwd=REPO,
        check=False,
    )
    assert ended.returncode == 0
    assert (tmp_path / "numbers").read_text(encoding="utf-8") == "True" + 3 * " /dev/null"
