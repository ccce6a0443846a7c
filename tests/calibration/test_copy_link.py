"""The copy script over stand-ins of PyTorch and CuPy: how it copies, reckons and fails."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from collector.calibration.copy_link import COPY_BYTES
from collector.calibration.copy_tool import SCRIPT

STAND_INS = Path(__file__).parent / "stand_ins"
LINK = {"rx": 55.6e9, "tx": 57.3e9, "rx_together": 51.8e9, "tx_together": 49.1e9}


def _folder(tmp_path: Path, *libraries: str) -> Path:
    folder = tmp_path / "libraries"
    folder.mkdir()
    for name in ("simulated_link", *libraries):
        shutil.copy(STAND_INS / f"{name}.py", folder)
    return folder


def _run(
    folder: Path, *options: str, link: dict[str, float] = LINK
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, "--seconds", "0.01", *options],
        env={"PYTHONPATH": str(folder), "STAND_IN_LINK": json.dumps(link)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("library", "version"), [("torch", "2.9.0+stand.in"), ("cupy", "14.2.0")])
def test_each_direction_is_measured_alone_and_beside_the_other(
    tmp_path: Path, library: str, version: str
) -> None:
    result = _run(_folder(tmp_path, library))
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert {key: told[key] for key in LINK} == pytest.approx(LINK, rel=1e-6)
    assert (told["library"], told["version"]) == (library, version)
    assert (told["pci_address"], told["copy_bytes"]) == ("0000:3b:00.0", COPY_BYTES)


def test_a_slow_direction_is_not_left_alone_at_its_end(tmp_path: Path) -> None:
    """The other direction, faster by half, must still be at work when the slow one ends."""
    uneven = {**LINK, "rx_together": 20e9, "tx_together": 30e9}
    told = json.loads(_run(_folder(tmp_path, "torch"), link=uneven).stdout)
    assert told["rx_together"] == pytest.approx(20e9, rel=1e-6)


def test_torch_goes_before_cupy(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "torch", "cupy")
    assert json.loads(_run(folder, "--probe").stdout) == {"library": "torch"}
    assert json.loads(_run(folder).stdout)["library"] == "torch"


def test_without_either_it_says_so(tmp_path: Path) -> None:
    for options in ((), ("--probe",)):
        (tmp_path / "empty").mkdir(exist_ok=True)
        result = _run(tmp_path / "empty", *options)
        assert (result.returncode, result.stdout) == (3, "")
        assert "neither torch nor cupy" in result.stderr


def test_buffers_shrink_to_the_memory_an_engine_left(tmp_path: Path) -> None:
    told = json.loads(_run(_folder(tmp_path, "torch"), link={**LINK, "room": 100 << 20}).stdout)
    assert told["copy_bytes"] == 64 << 20
    assert told["rx"] == pytest.approx(LINK["rx"], rel=1e-6)


def test_no_memory_at_all_is_an_error(tmp_path: Path) -> None:
    result = _run(_folder(tmp_path, "cupy"), link={**LINK, "room": 1 << 20})
    assert result.returncode == 1
    assert result.stderr.strip().splitlines()[-1] == "RuntimeError: CUDA out of memory"


@pytest.mark.parametrize(
    ("cpus", "near"), [("0-4095", True), ("", False), ("nonsense", False), ("4094-4095", False)]
)
def test_it_stays_near_the_gpu_where_it_may(tmp_path: Path, cpus: str, *, near: bool) -> None:
    told = json.loads(_run(_folder(tmp_path, "torch"), "--cpus", cpus).stdout)
    assert told["near"] is near


def test_a_file_beside_the_script_is_no_library(tmp_path: Path) -> None:
    """`sys.path[0]` of a script is its folder."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    copy = shutil.copy(SCRIPT, folder)
    (folder / "torch.py").write_text("", encoding="utf-8")
    result = subprocess.run(
        [sys.executable, copy, "--probe"], env={}, capture_output=True, check=False
    )
    assert result.returncode == 3
