from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lab.bench.figure import Figure
from lab.bench.meter import read_usage
from lab.bench.parsing import measure_parsing
from lab.quantity import rank, show_bytes, show_us


@pytest.mark.parametrize(
    ("bar", "at_least", "verdict"),
    [(2.0, False, "ok"), (1.9, False, "MISS"), (2.0, True, "ok"), (2.1, True, "MISS")],
)
def test_median_is_held_against_the_bar(bar: float, *, at_least: bool, verdict: str) -> None:
    figure = Figure("g", "n", "ms", [9.0, 2.0, 1.0], bar, at_least=at_least)
    assert figure.verdict == verdict


def test_figure_without_a_bar_has_no_verdict() -> None:
    assert Figure("g", "n", "ms", [1.0]).verdict == ""
    assert Figure("g", "n", "ms", [1.0]).cells()[2] == "1 ms"


def test_figure_that_could_not_be_measured_says_why_and_is_no_zero() -> None:
    figure = Figure("g", "n", "ms", bar=1.0, why_not="needs a C compiler")
    assert figure.verdict == ""
    assert figure.cells() == ("g", "n", "not measured", "", "", "", "needs a C compiler")


def test_usage_is_the_kernel_s_own() -> None:
    before = read_usage(os.getpid())
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    after = read_usage(os.getpid())
    assert 0.05 <= after.cpu_s - before.cpu_s < 5
    assert after.resident_bytes > 10_000_000


_BUSY = "x = bytearray(50_000_000)\nwhile True: pass"
_WITH_CHILD = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {_BUSY!r}])
print(flush=True)
sys.stdin.read()
child.kill()
"""


def test_usage_has_the_children_in_it() -> None:
    """The parent waits: what is used is used by its child."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WITH_CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        give_up = time.monotonic() + 10
        while (usage := read_usage(process.pid)).cpu_s < 0.5:
            assert time.monotonic() < give_up, usage
            time.sleep(0.02)
        own = int(Path(f"/proc/{process.pid}/statm").read_text("utf-8").split()[1])
        assert usage.resident_bytes > own * os.sysconf("SC_PAGE_SIZE") + 50_000_000
    finally:
        process.communicate()


_FORKED = """
import os, sys
ballast = bytearray(100_000_000)
if os.fork():
    print(flush=True)
sys.stdin.read()
"""


def test_a_child_that_is_not_yet_a_program_of_its_own_has_its_parent_s_memory() -> None:
    """A collector of 220 MB that was just starting a child was once seen with 459 MB."""
    process = subprocess.Popen(
        [sys.executable, "-c", _FORKED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        own = int(Path(f"/proc/{process.pid}/statm").read_text("utf-8").split()[1])
        assert own * os.sysconf("SC_PAGE_SIZE") > 100_000_000
        assert read_usage(process.pid).resident_bytes < 150_000_000
    finally:
        process.communicate()


def test_threads_that_come_and_go_do_not_end_a_measurement() -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            burst = [threading.Thread(target=time.sleep, args=(0.001,)) for _ in range(20)]
            for thread in burst:
                thread.start()
            for thread in burst:
                thread.join()

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        cpu_s = [read_usage(os.getpid()).cpu_s for _ in range(100)]
    finally:
        stop.set()
        churning.join()
    assert cpu_s == sorted(cpu_s)


def test_a_process_that_is_gone_has_no_usage() -> None:
    with pytest.raises(OSError, match="No such file"):
        read_usage(2**22 + 1)


def test_parsers_are_measured_on_the_same_page() -> None:
    (figure,) = measure_parsing(2)
    assert len(figure.values) == 2
    assert "prometheus_client" in figure.rival


def test_rank_is_an_observation() -> None:
    assert rank([4, 1, 3, 2], 0.5) == 2
    assert rank([4, 1, 3, 2], 0.75) == 3
    assert rank([4, 1, 3, 2], 0.99) == 4
    assert rank([7], 0.0) == 7
    assert math.isnan(rank([], 0.5))


@pytest.mark.parametrize(
    ("us", "text"),
    [(999, "999 us"), (1_500, "1.5 ms"), (2_500_000, "2.50 s"), (math.nan, "none")],
)
def test_durations_are_shown_in_the_unit_that_suits_them(us: float, text: str) -> None:
    assert show_us(us) == text


def test_sizes_are_decimal() -> None:
    assert [show_bytes(size) for size in (999, 1_500, 2.5e6, 3e9)] == [
        "999 B",
        "1.5 kB",
        "2.5 MB",
        "3.0 GB",
    ]
