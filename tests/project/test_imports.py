"""The import contracts hold, and they can fail; what they cannot see is read from the source."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.registry import SOURCES
from tests.project.checkout import PACKAGES, PROJECT, REPO

_FILE_CALLS = {"open", "read_text", "read_bytes", "iterdir", "glob", "rglob", "listdir", "scandir"}


def _lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache", "--no-logo"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(
            REPO / package,
            tmp_path / package,
            ignore=lambda _, names: [n for n in names if n == "__pycache__"],
        )
    shutil.copy(REPO / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "planted", "contract"),
    [
        ("stallscope/schema.py", "import stallscope.storage.writer", "Imports point one way"),
        ("dashboard/__init__.py", "import collector.source", "Readers meet the collector"),
        ("collector/source.py", "import duckdb", "No source loads a database"),
        ("collector/block_device.py", "import collector.host_pressure", "No source knows another"),
        ("collector/host_pressure.py", "import socket", "Only the edges reach"),
    ],
    ids=["upward", "reader", "heavy", "neighbour", "socket"],
)
def test_a_planted_import_is_caught(copy: Path, file: str, planted: str, contract: str) -> None:
    path = copy / file
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{planted}\n", encoding="utf-8")
    result = _lint_imports(copy)
    assert result.returncode == 1
    broken = [line for line in result.stdout.splitlines() if "BROKEN" in line]
    assert any(line.startswith(contract) for line in broken), result.stdout


def test_the_tree_keeps_its_contracts() -> None:
    result = _lint_imports(REPO)
    assert result.returncode == 0, result.stdout


def test_every_source_is_in_the_contract_of_independence() -> None:
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    listed = next(one["modules"] for one in contracts if one["id"] == "independent-sources")
    assert {f"collector.{entry.name}" for entry in SOURCES} == set(listed)


def _file_calls(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            spelled = ast.unparse(node.func)
            opens = isinstance(node.func, ast.Attribute) and node.func.attr in _FILE_CALLS
            if spelled == "open" or (opens and spelled != "Writer.open"):
                yield node.lineno


def test_only_the_edges_of_the_collector_open_files() -> None:
    """Opening by another name goes through collector.edges, which takes the roots as arguments."""
    found = [
        f"{path.relative_to(REPO)}:{line}"
        for path in sorted((REPO / "collector").rglob("*.py"))
        if "edges" not in path.parts
        for line in _file_calls(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_only_the_edges_of_the_collector_speak_http() -> None:
    """import-linter squashes http and urllib, whose other halves are harmless."""
    found = [
        path
        for path in (REPO / "collector").rglob("*.py")
        if "edges" not in path.parts
        and re.search(r"http\.client|urllib\.request", path.read_text(encoding="utf-8"))
    ]
    assert found == []
