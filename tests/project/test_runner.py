"""The suite's own rules: what is missing skips with its install line, or fails on demand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.checkout import REPO

_DRIVES_A_PROGRAM = """
import pytest

@pytest.mark.tools("promtool")
def test_rules(): ...
"""
_NEEDS_OLD_DUCKDB = "def test_reads(duckdb15): ..."
_NEEDS_RECORDINGS = "def test_reads(corpus): ..."
_COMPARES = """
def test_page(golden):
    golden("page.txt", "one line\\n")
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return a folder with our conftest and configuration, and no test yet."""
    (tmp_path / "tests").mkdir()
    shutil.copy(REPO / "tests/conftest.py", tmp_path / "tests")
    shutil.copy(REPO / "pyproject.toml", tmp_path)
    return tmp_path


def _run(suite: Path, test: str, *options: str, **variables: str) -> tuple[int, str]:
    """Return exit code and output of a run in which no program is on PATH."""
    (suite / "tests/test_one.py").write_text(test, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=suite,
        env={"PATH": str(suite), "HOME": os.environ["HOME"], **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        (_DRIVES_A_PROGRAM, "needs promtool: apt-get install prometheus"),
        (_NEEDS_OLD_DUCKDB, "tools/prepare duckdb15"),
    ],
    ids=["program", "duckdb"],
)
def test_what_is_missing_is_named_and_fails_when_wanted(
    suite: Path, test: str, reason: str
) -> None:
    code, output = _run(suite, test)
    assert (code, "1 skipped" in output, reason in output) == (0, True, True), output
    code, output = _run(suite, test, "--all-tools")
    assert (code, "1 skipped" in output, reason in output) == (1, False, True), output


def test_recordings_are_optional_everywhere(suite: Path) -> None:
    code, output = _run(suite, _NEEDS_RECORDINGS, "--all-tools")
    assert (code, "set STALLSCOPE_CORPUS" in output) == (0, True), output


def test_a_golden_is_recorded_by_the_flag_and_compared_without(suite: Path) -> None:
    assert _run(suite, _COMPARES)[0] == 1
    assert _run(suite, _COMPARES, "--update-golden")[0] == 0
    assert (suite / "tests/golden/page.txt").read_text(encoding="utf-8") == "one line\n"
    assert _run(suite, _COMPARES)[0] == 0
    assert _run(suite, _COMPARES.replace("one", "two"))[0] == 1


def test_a_golden_cannot_be_recorded_in_ci(suite: Path) -> None:
    code, output = _run(suite, _COMPARES, "--update-golden", CI="true")
    assert code == 4
    assert "--update-golden is refused" in output
    assert not (suite / "tests/golden").exists()
