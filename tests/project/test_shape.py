"""Small functions, one job per file, no drawers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.project.checkout import PACKAGES, REPO

MOST_LINES = 60


def _modules() -> Iterator[Path]:
    return (path for package in PACKAGES for path in (REPO / package).rglob("*.py"))


def _long_functions(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MOST_LINES:
                yield f"{path.relative_to(REPO)}:{node.lineno} {node.name}: {lines} lines"


def test_no_function_is_longer_than_a_screen() -> None:
    assert [place for path in _modules() for place in _long_functions(path)] == []


def test_no_module_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "common", "helpers", "misc"}
    assert [path for path in _modules() if drawers & {path.stem, path.parent.name}] == []


def test_storage_has_an_empty_init() -> None:
    """The linter follows indirect imports, and the collector needs only the writer."""
    assert (REPO / "stallscope/storage/__init__.py").read_bytes() == b""
