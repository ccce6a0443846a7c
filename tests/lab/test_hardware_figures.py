"""What the figures of ``make gpu-check`` are made to say, without any driver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.hardware import (
    field_counters,
    header_share,
    polling_effect,
    serialisation,
    throughput_unit,
)
from lab.hardware.answer import Answer
from lab.hardware.counters import WRAP_BYTES, Count, walk_of
from lab.hardware.load import Carried
from lab.hardware.page import Machine, file_name, render
from lab.hardware.privileges import read_admin_only

MS = 1_000_000
MACHINE = Machine("NVIDIA A10", "550.54.15", "", "gen 4 x16 at most", 1, "cupy 14.2.0",
                  "2026-11-30", is_stand_in=False)  # fmt: skip


def _counts(rx: Sequence[int], tx: Sequence[int]) -> list[Count]:
    """Return readings 10 ms apart."""
    return [Count(place * 10 * MS, *pair) for place, pair in enumerate(zip(rx, tx, strict=True))]


def test_a_walk_counts_its_wraps_and_the_times_between_changes() -> None:
    counts = _counts([WRAP_BYTES - 100, 50, 50, 250, 300], [7, 7, 8, 8, 8])
    rx, tx = walk_of(counts, "rx"), walk_of(counts, "tx")
    assert (rx.total, rx.wraps, rx.highest) == (400, 1, WRAP_BYTES - 100)
    assert rx.seconds == pytest.approx(0.04)
    assert rx.steps_s == pytest.approx([0.02, 0.01])  # changed at 10, 30 and 40 ms
    assert (tx.total, tx.wraps, tx.highest, tx.steps_s) == (1, 0, 8, [])


@given(st.integers(0, WRAP_BYTES - 1), st.lists(st.integers(0, WRAP_BYTES - 1), min_size=1))
def test_a_counter_read_often_enough_loses_nothing(start: int, steps: list[int]) -> None:
    totals = [start]
    for step in steps:
        totals.append(totals[-1] + step)
    shown = [total % WRAP_BYTES for total in totals]
    walk = walk_of(_counts(shown, shown), "rx")
    assert walk.total == sum(steps)
    assert walk.wraps == totals[-1] // WRAP_BYTES


@pytest.mark.parametrize(
    ("rx", "said"),
    [
        ([0, 4_000_000_000, 3_000_000_000], "it wraps at 2^32, 1 times in 0.0 s"),
        ([0, 2_000_000_000, 4_000_000_000], "it did not wrap in 0.0 s, highest value 4000000000"),
        ([0, 4_000_000_000, 7_300_000_000], "more than 32 bits: 7300000000 was seen"),
        ([5, 5, 5], "it stood still while copies ran: broken"),
        ([0, 200_000_000, 100_000_000], "at 2^32 it would be 0.60 x the copies"),
    ],
    ids=["wraps", "too short", "64 bits", "frozen", "another wrap"],
)
def test_a_wrap_is_believed_when_it_fits_the_copies(rx: list[int], said: str) -> None:
    """The copies run at 365 GB/s here: 7.3 GB in the 20 ms."""
    carried = Carried(7_300_000_000, 0.02)
    assert said in field_counters.judge(walk_of(_counts(rx, rx), "rx"), carried)


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ([1024.3, 1022.0], "KB = 1024 bytes"),
        ([999.1, 1004.0], "KB = 1000 bytes"),
        ([1000.0, 1024.0], "Neither base fits"),
        ([1093.0, 1093.0], "Neither base fits"),
    ],
)
def test_a_base_fits_both_directions_or_none(ratios: list[float], said: str) -> None:
    assert throughput_unit.judge(ratios).startswith(said)


@pytest.mark.parametrize(
    ("rx", "tx", "said"),
    [
        (1.094, 1.091, "Headers are counted"),
        (1.0, 1.003, "Payload only"),
        (1.09, 1.0, "Not the same for both directions"),
        (0.6, 0.7, "Not the same for both directions, or bytes are missed"),
    ],
)
def test_headers_are_in_both_directions_or_it_is_not_known(rx: float, tx: float, said: str) -> None:
    assert header_share.judge(rx, tx).startswith(said)


@pytest.mark.parametrize(
    ("took", "threads", "said"),
    [(42_000, 2, "they wait"), (21_500, 2, "they do not wait"), (160_000, 8, "they wait"),
     (50_000, 8, "they do not wait")],
)  # fmt: skip
def test_threads_wait_when_they_take_as_long_as_one_after_the_other(
    took: float, threads: int, said: str
) -> None:
    assert serialisation.judge(took, 21_000, threads) == said


def test_a_pace_is_slow_when_it_stands_out_from_two_arms_without_polls() -> None:
    blocks = {
        "off": [_steps(1000, 2000)] * 3,
        "off again": [_steps(1010, 2020)] * 3,
        "1 Hz": [_steps(1015, 2030)] * 3,
        "5 Hz": [_steps(1030, 2000)] * 3,
        "10 Hz": [_steps(1000, 4000)] * 3,
    }
    assert polling_effect.judge(blocks) == (
        "median of step times: slower at 5 Hz (+3.0%) (two arms without polls: 1.0%); "
        "p99 of step times: slower at 10 Hz (+100.0%) (two arms without polls: 1.0%)."
    )


def _steps(usual: float, rare: float) -> list[float]:
    """Return a hundred steps of which two are rare, so that rank 99 is one of them."""
    return [usual] * 98 + [rare] * 2


def test_who_may_profile_is_read_from_the_parameters(tmp_path: Path) -> None:
    parameters = tmp_path / "params"
    parameters.write_text("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n", "utf-8")
    assert read_admin_only(parameters) == "RmProfilingAdminOnly=1"
    parameters.write_text("ResmanDebugLevel: 0\n", encoding="utf-8")
    assert read_admin_only(parameters) == "RmProfilingAdminOnly not among its parameters"
    assert "unknown (No such file" in read_admin_only(tmp_path / "none")


def test_a_page_tells_what_was_and_what_was_not_answered() -> None:
    answers = [
        Answer("One?", "It is | so.\nYes.", ("a", "b"), [["1", "x|y"]]),
        Answer("Two?", why_not="no load"),
    ]
    page = render(MACHINE, answers)
    assert page.startswith("# NVIDIA A10, driver 550.54.15\n\n- GPU: NVIDIA A10, gen 4 x16")
    assert "- Driver: 550.54.15, NVML unknown\n- Host: Linux " in page
    assert page.endswith(
        "\n## One?\n\nIt is \\| so. Yes.\n\n| a | b |\n| --- | --- |\n| 1 | x\\|y |\n"
        "\n## Two?\n\nNot answered: no load\n"
    )


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3-550.54.15.md"),
        ("../../evil\n", "..-..-evil-550.54.15.md"),
    ],
)
def test_a_page_is_named_after_gpu_and_driver(model: str, name: str) -> None:
    assert file_name(model, "550.54.15") == name
