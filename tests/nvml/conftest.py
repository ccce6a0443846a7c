"""The make-believe driver for tests: compiled once a run, one program a scenario.

NVML's binding keeps function pointers for the life of a process, so each scenario gets a process
of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.nvml.driver import FakeDriver

Finished = subprocess.CompletedProcess[str]

_OPENING = """
import json, time
import pynvml as n

def say(*what):
    print(json.dumps(what[0] if len(what) == 1 else what))

def code(function, *args):
    try:
        function(*args)
    except n.NVMLError as error:
        return error.value
    return 0

def gpm(gpu, *numbers, pause=0.11):
    first, second = n.nvmlGpmSampleAlloc(), n.nvmlGpmSampleAlloc()
    n.nvmlGpmSampleGet(gpu, first)
    time.sleep(pause)
    n.nvmlGpmSampleGet(gpu, second)
    request = n.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = n.NVML_GPM_METRICS_GET_VERSION, len(numbers)
    request.sample1, request.sample2 = first, second
    for place, number in enumerate(numbers):
        request.metrics[place].metricId = number
    n.nvmlGpmMetricsGet(request)
    return [(m.nvmlReturn, m.value) for m in request.metrics[: len(numbers)]]

n.nvmlInit()
gpus = [n.nvmlDeviceGetHandleByIndex(index) for index in range(n.nvmlDeviceGetCount())]
"""


@pytest.fixture
def driver(fake_nvml: Path, tmp_path: Path) -> Iterator[FakeDriver]:
    """Return a machine with two GPUs."""
    with FakeDriver(fake_nvml, tmp_path / "control", gpus=2) as made:
        yield made


@pytest.fixture
def start() -> Callable[[FakeDriver, str], Finished]:
    """Return a function that runs a program over a driver until it ends."""
    return _run_program


@pytest.fixture
def ask(driver: FakeDriver) -> Callable[[str], Any]:
    """Return a function that runs a program over the real binding and returns what it said.

    In the program ``n`` is pynvml, initialised; ``gpus`` are the handles; ``code(function, *args)``
    is the error code that a call ends with, 0 when it works; ``gpm(gpu, *numbers)`` are code and
    value of GPM metrics between two samples; ``say`` prints JSON.
    """
    return lambda body: _ask_binding(driver, body)


def _ask_binding(driver: FakeDriver, body: str) -> object:
    done = _run_program(driver, _OPENING + body)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _run_program(driver: FakeDriver, program: str) -> Finished:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **driver.environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
