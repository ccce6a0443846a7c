"""What README and the docs promise exists: commands, flags, make targets, files, ports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from stallscope.settings_tree import CollectSettings, DashboardSettings
from tests.project.checkout import REPO

PAGES = sorted(
    [REPO / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    + [page for page in (REPO / "docs").rglob("*.md") if page.name != "schema.md"]
)
_COMMAND = re.compile(
    r"(?<![\w/-])(?:[\w./]*/bin/)?stallscope ((?:(?:-{1,2}|\b)[a-z][\w.-]*[ ]?)+)"
)
_CODE = re.compile(r"```(?:sh|toml|ini|python)?\n(.*?)```|`([^`\n]+)`", re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
_TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)


def _code(page: Path) -> list[str]:
    found = _CODE.findall(page.read_text(encoding="utf-8"))
    return [line for block in found for line in "".join(block).splitlines()]


def _commands() -> set[tuple[str, ...]]:
    """Return each spelled command as (subcommand words and flags ...)."""
    spelled = (
        hit.group(1).split()
        for page in PAGES
        for line in _code(page)
        for hit in _COMMAND.finditer(line.partition(" #")[0].partition('"')[0])
    )
    return {tuple(words) for words in spelled if words}


@cache
def _help(*words: str) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "stallscope.cli", *words, "--help"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "COLUMNS": "200"},
    )
    assert result.returncode == 0, f"stallscope {' '.join(words)}: {result.stderr}"
    return result.stdout


@pytest.mark.parametrize("command", sorted(_commands()), ids=" ".join)
def test_a_named_command_and_its_flags_exist(command: tuple[str, ...]) -> None:
    words = [word for word in command if not word.startswith("-")]
    text = _help(*words)
    for flag in (word for word in command if word.startswith("--")):
        assert re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text), flag


def test_readme_names_the_commands_that_people_start_with() -> None:
    named = {command[0] for command in _commands()}
    assert named >= {"up", "collect", "sql", "doctor", "settings", "lake"}


def test_every_named_make_target_exists_and_they_are_few() -> None:
    targets = set(_TARGET.findall((REPO / "Makefile").read_text(encoding="utf-8")))
    lines = [line for page in PAGES for line in _code(page) if line.startswith("make ")]
    named = {word for line in lines for word in _words_of_make(line)}
    assert named <= targets
    assert {"up", "test"} <= named
    assert len(targets) <= 16


def _words_of_make(line: str) -> list[str]:
    words = line.partition("#")[0].partition("ARGS=")[0].split()[1:]
    return [word for word in words if re.fullmatch(r"[a-z-]+", word)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_every_link_and_file_that_is_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = [link for link in _LINK.findall(text) if not (page.parent / link).exists()]
    ours = r"(?:tools|requirements|docs|tests|collector|stallscope|analytics|dashboard|lab)"
    for line in _code(page):
        named = re.findall(rf"(?<![\w/.~-]){ours}/[\w./-]*", line)
        missing += [name for name in named if not (REPO / name).exists()]
    assert missing == []


def test_the_addresses_that_up_serves_are_the_defaults() -> None:
    text = (REPO / "README.md").read_text(encoding="utf-8")
    addresses = set(re.findall(r"http://[\w.]+:\d+[\w/.-]*", text))
    assert addresses == {
        f"http://127.0.0.1:{DashboardSettings().port}",
        f"http://127.0.0.1:{CollectSettings().listen_port}/metrics",
    }


def test_the_line_without_make_is_what_make_runs() -> None:
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    text = (REPO / "README.md").read_text(encoding="utf-8")
    for target in ("up", "test"):
        recipe = makefile.split(f"\n{target}:", 1)[1].split("\n\t@", 1)[1].partition("\n")[0]
        plain = recipe.replace("exec ", "").replace(" $(ARGS)", "")
        assert f"`make {target}` | `{plain}` |" in text
