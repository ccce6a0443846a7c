"""The tap for vLLM lives in the engine's process: small, old syntax, no dependency, no import."""

from __future__ import annotations

import ast
import importlib
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from stallscope_vllm.outbox import TAP_VERSION
from tests.project.checkout import REPO

_FOLDER = REPO / "collector" / "taps" / "vllm"
_PROJECT = tomllib.loads((_FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_MODULES = sorted((_FOLDER / "stallscope_vllm").glob("*.py"))
_OLDEST = (3, 9)


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("path", _MODULES, ids=lambda path: path.stem)
def test_a_module_needs_the_oldest_python_and_nothing_else(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=_OLDEST)
    tops = {name.partition(".")[0] for name in _imports(tree)}
    assert tops - sys.stdlib_module_names == {"stallscope_vllm"} & tops


def test_it_brings_nothing_and_says_which_python() -> None:
    assert _PROJECT["dependencies"] == []
    assert _PROJECT["requires-python"] == f">={_OLDEST[0]}.{_OLDEST[1]}"
    assert _PROJECT["version"] == TAP_VERSION


def test_the_entry_point_and_the_middleware_are_there() -> None:
    (target,) = _PROJECT["entry-points"]["vllm.stat_logger_plugins"].values()
    module, _, name = target.partition(":")
    assert isinstance(getattr(importlib.import_module(module), name), type)
    page = (_FOLDER / "README.md").read_text(encoding="utf-8")
    assert "--middleware stallscope_vllm.TokenTap" in page
    assert isinstance(importlib.import_module("stallscope_vllm").TokenTap, type)


def test_the_page_names_every_setting() -> None:
    page = (_FOLDER / "README.md").read_text(encoding="utf-8")
    code = (_FOLDER / "stallscope_vllm" / "socket_path.py").read_text(encoding="utf-8")
    settings = {
        node.value
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("STALLSCOPE_")
    }
    assert settings == {"STALLSCOPE_TAP", "STALLSCOPE_TAP_SOCKET"}
    assert [name for name in settings if f"`{name}" not in page] == []
