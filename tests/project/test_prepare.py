"""tools/prepare says in one line what is missing, and leaves nothing behind when it gives up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.checkout import REPO


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with a PATH folder of its own and no environment yet."""
    for name in ("tools", "requirements"):
        shutil.copytree(REPO / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPO / "pyproject.toml", tmp_path)
    (tmp_path / "path").mkdir()
    for program in ("bash", "dirname", "sed", "head", "cat", "sha256sum", "cut", "grep", "env"):
        found = shutil.which(program)
        assert found is not None
        (tmp_path / "path" / program).symlink_to(found)
    return tmp_path


def _put_python(checkout: Path, script: str) -> None:
    python = checkout / "path" / "python3"
    python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    python.chmod(0o755)


def _prepare(checkout: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "tools" / "prepare", "runtime"],
        env={"PATH": str(checkout / "path"), "HOME": os.environ["HOME"]},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_old_python_is_named(checkout: Path) -> None:
    _put_python(checkout, '[ "$1" = --version ] && echo Python 3.9.18; exit 1')
    result = _prepare(checkout)
    assert result.returncode == 1
    assert "needs Python 3.11 or newer on PATH; python3 is Python 3.9.18" in result.stderr
    assert not (checkout / ".venv").exists()


def test_no_python_at_all_is_named(checkout: Path) -> None:
    result = _prepare(checkout)
    assert result.returncode == 1
    assert "needs Python 3.11 or newer on PATH" in result.stderr


def test_a_python_without_venv_gets_the_one_hint(checkout: Path) -> None:
    """Debian ships python3 without ensurepip; the version test passes, the import does not."""
    _put_python(checkout, f'case "$2" in *ensurepip*) exit 1;; esac; exec {sys.executable} "$@"')
    result = _prepare(checkout)
    assert result.returncode == 1
    assert result.stderr.strip().endswith("As root: apt install python3-venv")
    assert not (checkout / ".venv").exists()


def test_an_unknown_kind_is_refused_with_the_usage(checkout: Path) -> None:
    result = subprocess.run(
        [checkout / "tools" / "prepare", "everything"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "Usage: tools/prepare runtime" in result.stderr
