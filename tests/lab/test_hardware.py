"""``make gpu-check`` from end to end over the make-believe driver, which writes no page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.hardware.__main__ import PAGES, QUESTIONS
from lab.nvml.driver import FakeDriver
from tests.project.checkout import REPO

STAND_IN = Path(__file__).parent / "stand_in_torch"
RX, TX = 12_000_000_000, 7_000_000_000


@pytest.fixture
def driver(fake_nvml: Path, tmp_path: Path) -> Iterator[FakeDriver]:
    """Return a machine with two GPUs, the first with traffic at constant rates."""
    with FakeDriver(fake_nvml, tmp_path / "control", gpus=2) as made:
        made.gpus[0].set_rates(rx=RX, tx=TX)
        yield made


def _examine(
    environment: dict[str, str], *words: str, libraries: Path = STAND_IN
) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-m", "lab.hardware", "--quick", *words],
        cwd=REPO,
        env={**plain, "PYTHONPATH": str(libraries), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _sections(page: str) -> dict[str, str]:
    """Return the text below each question."""
    parts = re.split(r"^## (.*)\n", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _pages() -> set[Path]:
    return set(PAGES.glob("*.md"))


@pytest.mark.slow
def test_every_question_is_answered_and_nothing_is_written(driver: FakeDriver) -> None:
    before = _pages()
    driver.throughput_serialised = 1
    done = _examine(driver.environment, "--force")
    assert done.returncode == 0, done.stderr
    assert _pages() == before
    assert done.stdout.startswith("# NVIDIA H100 80GB HBM3, driver 580.95.05\n\n> **Made with the")
    assert "- Copies by: torch 2.9.0+stand.in\n" in done.stdout
    sections = _sections(done.stdout)
    assert list(sections) == list(QUESTIONS)
    types, unit, headers, users, costs, threads, polling = sections.values()
    # 0.9 s at 12 and 7 GB/s are 2.5 and 1.5 times 2^32
    assert re.search(r"Field 198 \(rx\): it wraps at 2\^32, [23] times", types)
    assert re.search(r"Field 197 \(tx\): it wraps at 2\^32, [12] times", types)
    assert re.search(r"\| 198 \(rx\) \| unsigned int \|.*\| 1[12]\.\d\d \| \d+\.\d\d \|", types)
    assert re.search(r"\| 197 \(tx\) \| unsigned int \|.*\| [67]\.\d\d \| ", types)
    assert "KB = 1024 bytes" in unit
    assert "bytes counted per byte of large copies (fields 197/198)" in headers
    assert re.search(r"\| H2D \| 67\.1 MB \| [1-9]\.\d+ \| ", headers)
    assert re.search(r"\| gpm_cumulative \| works \|\n(.*\n)*\| throughput \| works \|", users)
    assert re.search(r"Throughput of one direction blocks \d\d\.\d ms \(median\)", costs)
    assert costs.count("\n| ") > 10
    assert "2 threads, 2 GPUs: they wait" in threads
    assert re.search(r"\n\| off again \| \d+ \|.*\n\| 1 Hz \| \d+ \|", polling)


def test_without_something_that_copies_the_rest_is_answered(
    driver: FakeDriver, tmp_path: Path
) -> None:
    done = _examine(driver.environment, "--force", libraries=tmp_path)
    assert done.returncode == 0, done.stderr
    sections = _sections(done.stdout)
    reason = f"Not answered: {sys.executable} has neither PyTorch nor CuPy"
    unanswered = [question for question, text in sections.items() if reason in text]
    assert len(unanswered) == 4
    assert "GPM: works" in sections["Which ways of measuring may this user use?"]


def test_a_gpu_at_work_is_left_alone(driver: FakeDriver) -> None:
    done = _examine(driver.environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        r"GPU 0 is at work: 1[12]\.\d\d GB/s H2D on its link, [67]\.\d\d GB/s D2H on its link; "
        r"--force examines it all the same\n",
        done.stderr,
    )


def test_without_a_gpu_there_is_one_line(driver: FakeDriver) -> None:
    done = _examine({})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("no GPU to examine: libnvidia-ml.so.1")
    done = _examine(driver.environment, "--gpu", "2")
    assert (done.returncode, done.stderr) == (2, "there is no GPU 2: 2 were found\n")


def test_a_gpu_that_cannot_be_opened_is_one_line(driver: FakeDriver) -> None:
    driver.gpus[0].lost = 1
    done = _examine(driver.environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "GPU 0 cannot be examined" in done.stderr
