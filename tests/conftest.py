"""What every test stands on: no network but loopback, no settings of the person who runs it.

Options and marks: ``--update-golden`` records goldens anew (refused in CI), ``@pytest.mark.tools``
names programs a test drives, ``--all-tools`` wants them all. ``STALLSCOPE_CORPUS`` is a folder of
recordings, for tests only.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from fcntl import LOCK_EX, flock
from pathlib import Path

import hypothesis
import pytest

from lab.nvml.build import LIBRARY, NoCompilerError, build_library

REPO = Path(__file__).resolve().parent.parent
GOLDEN = Path(__file__).resolve().parent / "golden"

_DEBIAN_PACKAGES = {
    "chromium": "chromium",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "amtool": "prometheus-alertmanager",
    "prometheus-node-exporter": "prometheus-node-exporter",
}
_CORPUS = "STALLSCOPE_CORPUS"
_NETWORK_EVENTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_LOCAL_NAMES = {"localhost", "", None}


class OffLoopbackError(RuntimeError):
    """A test tried to reach another machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flags of this suite."""
    parser.addoption(
        "--update-golden", action="store_true", help="record goldens anew instead of comparing"
    )
    parser.addoption(
        "--all-tools", action="store_true", help="fail where a program is missing, do not skip"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Cut the run off from the network and from the person's own settings."""
    if config.getoption("--update-golden") and os.environ.get("CI"):
        msg = "--update-golden is refused where CI is set: record and read a golden by hand"
        raise pytest.UsageError(msg)
    sys.addaudithook(_refuse_other_machines)
    _take_own_home(config)
    hypothesis.settings.register_profile("stallscope", deadline=None, print_blob=True)
    hypothesis.settings.load_profile("stallscope")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose programs are missing, or fail it under --all-tools."""
    for mark in item.iter_markers("tools"):
        for program in mark.args:
            if shutil.which(program) is None:
                hint = f"apt-get install {_DEBIAN_PACKAGES[program]}"
                _give_up(item.config, f"needs {program}: {hint}")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of recordings from real machines and engines."""
    folder = os.environ.get(_CORPUS)
    if not folder:
        pytest.skip("set STALLSCOPE_CORPUS to the folder of recordings")
    path = Path(folder)
    assert path.is_dir(), f"STALLSCOPE_CORPUS is no folder: {path}"
    return path


@pytest.fixture(scope="session")
def duckdb15(pytestconfig: pytest.Config) -> Path:
    """Return a Python that has DuckDB 1.5.5, the older reader we promise to serve."""
    python = REPO / ".venv-duckdb15" / "bin" / "python"
    if not python.exists():
        _give_up(pytestconfig, f"needs DuckDB 1.5.5 at {python}: tools/prepare duckdb15")
    return python


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function (name, text) that compares the text with tests/golden/<name>."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden yet: make golden writes {path}"
        assert text == path.read_text(encoding="utf-8")

    return compare


def _give_up(config: pytest.Config, reason: str) -> None:
    """Skip, or fail where everything is said to be installed."""
    if config.getoption("--all-tools"):
        pytest.fail(reason)
    pytest.skip(reason)


def _take_own_home(config: pytest.Config) -> None:
    """Give the run a home of its own and none of the person's STALLSCOPE_ settings."""
    home = tempfile.TemporaryDirectory(prefix="stallscope-home-")
    config.add_cleanup(home.cleanup)
    os.environ["HOME"] = home.name
    for name in [name for name in os.environ if _is_setting(name)]:
        del os.environ[name]
    os.environ["STALLSCOPE_TAP_SOCKET"] = f"{home.name}/tap.sock"  # not the one of this host


def _is_setting(name: str) -> bool:
    ours = name.startswith("STALLSCOPE_") and name != _CORPUS
    return ours or name in {"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"}


def _refuse_other_machines(event: str, args: tuple[object, ...]) -> None:
    """Raise when a socket of this process leaves the machine (an audit hook: sys.audit)."""
    if event in _NETWORK_EVENTS:
        address = args[1]
        if isinstance(address, tuple) and not _is_loopback(address[0]):
            raise OffLoopbackError(f"{event} to {address}")
    elif event == "socket.getaddrinfo" and not _is_loopback(args[0]):
        raise OffLoopbackError(f"looked up {args[0]!r}")


def _is_loopback(host: object) -> bool:
    if host in _LOCAL_NAMES:
        return True
    text = host.decode() if isinstance(host, bytes) else str(host)
    try:
        return ipaddress.ip_address(text.partition("%")[0]).is_loopback
    except ValueError:
        return text == "localhost"


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """Return the folder of the compiled library; the workers of one run share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "fake-nvml"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w", encoding="utf-8") as lock:
        flock(lock, LOCK_EX)
        if not (folder / LIBRARY).exists():
            _build_or_give_up(folder, pytestconfig)
    return folder


def _build_or_give_up(folder: Path, config: pytest.Config) -> None:
    """Compile; skip without a compiler, or fail where all programs are said to be there."""
    try:
        build_library(folder)
    except NoCompilerError as error:
        if config.getoption("--all-tools"):
            pytest.fail(str(error))
        pytest.skip(str(error))
