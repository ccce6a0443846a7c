from __future__ import annotations

import math
import os
import time

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


def test_usage_is_the_kernel_s_own() -> None:
    before = read_usage(os.getpid())
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    after = read_usage(os.getpid())
    assert 0.05 <= after.cpu_s - before.cpu_s < 5
    assert after.resident_bytes > 10_000_000


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
