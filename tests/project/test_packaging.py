"""The wheel as somebody installs it: only our names, every data file, a command that starts."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.project.checkout import PACKAGES, REPO

_SOURCE_ONLY = {".pyc", ".pyo"}
TAPS = REPO / "collector" / "taps"
"""Distributions of their own, for the engine's environment: never part of ours."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    beside = Path(sys.executable).parent
    subprocess.run(
        [sys.executable, "-c", f"import uv_build; uv_build.build_wheel({str(folder)!r})"],
        cwd=REPO,
        env={**os.environ, "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}"},
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("stallscope-*.whl")
    return zipfile.ZipFile(built)


@pytest.fixture(scope="module")
def installed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel unpacked, which is all that installing pure Python does."""
    site = tmp_path_factory.mktemp("site")
    wheel.extractall(site)
    return site


def _run_installed(site: Path, code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=site.parent,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(site)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_the_wheel_brings_our_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES


def test_our_names_are_nobody_elses() -> None:
    assert PACKAGES.isdisjoint(sys.stdlib_module_names)
    others = packages_distributions()
    assert {name: others[name] for name in PACKAGES & others.keys()} in (
        {},
        {name: ["stallscope"] for name in PACKAGES},
    )


def test_every_data_file_ships(wheel: zipfile.ZipFile) -> None:
    shipped = set(wheel.namelist())
    there = {
        str(path.relative_to(REPO))
        for package in PACKAGES
        for path in (REPO / package).rglob("*")
        if path.is_file() and path.suffix not in _SOURCE_ONLY and TAPS not in path.parents
    }
    assert there - shipped == set()
    assert {name for name in shipped if name.startswith("collector/taps")} == set()


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_a_package_is_typed_and_comes_from_the_wheel(installed: Path, package: str) -> None:
    assert (installed / package / "py.typed").is_file()
    place = _run_installed(installed, f"import {package}; print({package}.__file__)").strip()
    assert place == str(installed / package / "__init__.py")


def test_the_command_starts_from_the_wheel(installed: Path) -> None:
    code = (
        "import sys; sys.argv = ['stallscope', '--help']; from stallscope.cli import main; main()"
    )
    assert _run_installed(installed, code).lower().startswith("usage: stallscope")


def test_every_sql_file_is_readable_as_a_resource(installed: Path) -> None:
    code = (
        "from importlib.resources import files\n"
        "folder = files('analytics') / 'sql'\n"
        "print(*(f.name for f in folder.iterdir() if f.read_text('utf-8').strip()))"
    )
    found = set(_run_installed(installed, code).split())
    assert found == {path.name for path in (REPO / "analytics/sql").iterdir()}
    assert found


def test_no_page_shadows_a_module() -> None:
    """Streamlit puts the script's folder first on sys.path: dashboard/json.py would win."""
    pages = {path.stem for path in (REPO / "dashboard").glob("*.py")} - {"__init__"}
    folders = {path.name for path in (REPO / "dashboard").iterdir() if path.is_dir()}
    taken = sys.stdlib_module_names | PACKAGES | packages_distributions().keys()
    assert (pages | folders) & taken == set()
