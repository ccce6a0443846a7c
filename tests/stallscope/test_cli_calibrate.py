"""`stallscope calibrate` over the make-believe driver and a stand-in of nvbandwidth."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.nvml.driver import FakeDriver
from stallscope import cli
from stallscope.storage.layout import create_lake
from stallscope.storage.reader import Lake
from tests.calibration.nvbandwidth_output import FIGURES, json_output, printing, put_program
from tests.project.checkout import REPO

STAND_INS = REPO / "tests/calibration/stand_ins"
MEASURED = printing(json_output(FIGURES, address="00000000:1b:00"))


@pytest.fixture
def driver(
    fake_nvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeDriver]:
    """Return a machine with two idle GPUs, which our processes see, and nothing on PATH."""
    with FakeDriver(fake_nvml, tmp_path / "control", gpus=2) as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        yield made


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    create_lake(tmp_path / "lake")
    return tmp_path / "lake"


def _put(tmp_path: Path, body: str = MEASURED) -> None:
    put_program(tmp_path / "bin", body)


def _calibrate(lake: Path, *words: str) -> int:
    return cli.main(["calibrate", "--lake", str(lake), *words])


def _rows(lake: Path) -> list[tuple[object, ...]]:
    with Lake(lake).connect() as connection:
        return connection.sql(
            "SELECT gpu_index, direction, bytes_per_second, link_generation, link_width, tool "
            "FROM link_ceiling JOIN device USING (device) ORDER BY ALL"
        ).fetchall()


def test_what_is_measured_is_shown_and_stored(
    driver: FakeDriver, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _put(tmp_path)
    driver.gpus[0].set_rates(rx=55_000_000_000, tx=1_000_000_000)
    assert _calibrate(lake, "--gpu", "0", "--force") == 0
    said = capsys.readouterr()
    h2d, d2h = (line.split() for line in said.out.splitlines() if "gen 5 x16" in line)
    # raw 63.02 GB/s, of which 88 % are usable by default; 55.59 is 88.2 % of raw, 85 % of it 47.25
    assert h2d[-7:] == ["H2D", "63.02", "55.45", "55.59", "88.2", "51.82", "47.25"]
    assert d2h[-7:] == ["D2H", "63.02", "55.45", "57.29", "90.9", "49.09", "48.7"]
    assert f"Measured with nvbandwidth v0.8.\nStored in {lake}" in said.out
    assert said.err == ""
    assert [row[:2] + row[3:] for row in _rows(lake)] == [
        (0, "rx", 5, 16, "nvbandwidth v0.8"),
        (0, "tx", 5, 16, "nvbandwidth v0.8"),
    ]
    assert [row[2] for row in _rows(lake)] == pytest.approx([55.59e9, 57.29e9])


def test_json_has_bytes_per_second(
    driver: FakeDriver, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _put(tmp_path)
    driver.gpus[1].c2c_links = driver.gpus[1].c2c_enabled = 1
    assert _calibrate(lake, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    first, second = told["gpus"]
    assert (told["lake"], first["outcome"], first["stored"]) == (str(lake), "measured", True)
    assert (first["link_generation"], first["link_width"], first["index"]) == (5, 16, 0)
    assert first["directions"]["tx"]["bytes_per_second"] == pytest.approx(57.29e9)
    assert first["directions"]["rx"]["together_bytes_per_second"] == pytest.approx(51.82e9)
    assert first["directions"]["rx"]["raw_bytes_per_second"] == pytest.approx(63.015e9, rel=1e-4)
    assert (second["outcome"], second["directions"]) == ("not_applicable", {})
    assert "NVLink-C2C" in second["reason"]


def test_without_a_lake_it_says_how_to_start_one(
    driver: FakeDriver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _put(tmp_path)
    assert _calibrate(tmp_path / "none", "--gpu", driver.gpus[0].uuid[:12]) == 0
    said = capsys.readouterr().out
    assert "55.59" in said
    assert "Not stored: no lake at" in said
    assert "stallscope up" in said
    assert not (tmp_path / "none").exists()


def test_a_busy_gpu_is_left_alone_and_the_others_are_measured(
    driver: FakeDriver, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _put(tmp_path, printing(json_output(FIGURES, address="00000000:29:00")))
    driver.gpus[0].set_processes({os.getppid(): 1 << 30})
    driver.gpus[0].utilisation_percent = 93
    assert _calibrate(lake) == 1
    said = capsys.readouterr().out
    assert f"GPU 0 was left alone, it is at work: process {os.getppid()} (" in said
    assert "it is 93% busy." in said
    assert "takes about 14 s of a link away from its engine; --force does it all the same" in said
    assert [row[:2] for row in _rows(lake)] == [(1, "rx"), (1, "tx")]


def test_a_slow_link_is_said_to_be_slow(
    driver: FakeDriver, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = dict.fromkeys(FIGURES, "12.21")
    _put(tmp_path, printing(json_output(figures, address="00000000:1b:00")))
    driver.gpus[0].generation = 3
    assert _calibrate(lake, "--gpu", "0") == 0
    assert "GPU 0 under load the link was gen 3 x16 of gen 5 x16" in capsys.readouterr().out
    assert [row[3:5] for row in _rows(lake)] == [(3, 16), (3, 16)]


def test_implausible_figures_are_not_stored(
    driver: FakeDriver, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _put(tmp_path)
    driver.gpus[0].generation = 3
    assert _calibrate(lake, "--gpu", "0") == 1
    said = capsys.readouterr().out
    assert "GPU 0 could not be calibrated: H2D came out as 55.59 GB/s" in said
    assert "at most 15.75 GB/s" in said
    assert _rows(lake) == []


def test_a_named_python_goes_before_nvbandwidth(
    driver: FakeDriver,
    lake: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _put(tmp_path)
    link = {"rx": 54e9, "tx": 56e9, "rx_together": 50e9, "tx_together": 48e9}
    monkeypatch.setenv("STAND_IN_LINK", json.dumps(link))
    monkeypatch.setenv("PYTHONPATH", str(_libraries(tmp_path)))
    driver.gpus[0].bus_id = "00000000:3B:00.0"
    assert _calibrate(lake, "--gpu", "0", "--python", sys.executable, "--seconds", "1") == 0
    assert "Measured with torch 2.9.0+stand.in." in capsys.readouterr().out
    assert [row[2] for row in _rows(lake)] == pytest.approx([54e9, 56e9])


def _libraries(tmp_path: Path) -> Path:
    folder = tmp_path / "libraries"
    folder.mkdir()
    for name in ("simulated_link", "torch"):
        shutil.copy(STAND_INS / f"{name}.py", folder)
    return folder


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Nothing here can copy: there is no nvbandwidth on PATH, and"),
        (["--python", sys.executable], "has neither PyTorch nor CuPy"),
        (["--python", "/nowhere/python"], "/nowhere/python cannot be started"),
        (["--gpu", "7"], "There is no GPU '7'. There are: 0 (GPU-"),
        (["--gpu", "GPU-0"], "There are 2 GPUs 'GPU-0'"),
    ],
)
def test_what_cannot_run_ends_with_2_and_the_ways_out(
    driver: FakeDriver,
    lake: Path,
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _calibrate(lake, *words) == 2
    told = capsys.readouterr()
    assert (told.out, said in told.err, told.err.count("\n")) == ("", True, 1), told.err
    if "--gpu" not in words:
        assert all(way in told.err for way in ("nvbandwidth on PATH", "--python", "install"))
    assert driver.shutdowns == driver.inits


def test_without_nvml_there_is_nothing_to_calibrate(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _calibrate(lake) == 2
    assert "libnvidia-ml.so.1" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "nonsense", "1000", "-5"])
def test_seconds_are_a_sensible_number(
    lake: Path, seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        _calibrate(lake, "--seconds", seconds)
    assert ended.value.code == 2
    assert "want 1 to 120 seconds" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_keeps_what_is_done_and_leaves_no_program_behind(
    driver: FakeDriver, lake: Path, tmp_path: Path, number: signal.Signals
) -> None:
    note = tmp_path / "pid"
    _put(
        tmp_path,
        f"if os.environ['CUDA_VISIBLE_DEVICES'] == {driver.gpus[1].uuid!r}:\n"
        f"    open({str(note)!r}, 'w').write(str(os.getpid()))\n"
        f"    time.sleep(600)\n{MEASURED}",
    )
    running = subprocess.Popen(
        [sys.executable, "-m", "stallscope.cli", "calibrate", "--lake", str(lake)],
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (note.exists() and note.read_text(encoding="utf-8")):
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    running.send_signal(number)
    out, errors = running.communicate(timeout=30)
    assert (running.returncode, errors) == (130, "stallscope: interrupted\n")
    assert "55.59" in out
    assert [row[:2] for row in _rows(lake)] == [(0, "rx"), (0, "tx")]
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text(encoding="utf-8")), 0)
