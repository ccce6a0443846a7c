"""Bytes that pass: the Python side by reasoning, the C side by comparison with it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.nvml.control import FlowName, Leg, TrafficControl
from lab.nvml.driver import FakeDriver
from lab.nvml.traffic import Pace, Traffic, count_bytes

SECOND_NS = 1_000_000_000
ASK_LIBRARY = """
import ctypes, json
library = ctypes.CDLL("libnvidia-ml.so.1")
count = library.stallscope_fake_passed_bytes
count.restype = ctypes.c_uint64
print(json.dumps([count((ctypes.c_uint64 * 5)(*leg), ctypes.c_uint64(at)) for leg, at in CASES]))
"""


@pytest.mark.parametrize(
    ("at_ns", "expected"),
    [
        (0, 1_000),  # before it begins nothing is added
        (5 * SECOND_NS, 1_000),
        (7 * SECOND_NS, 1_014),  # two seconds at 7 bytes/s
        (6 * SECOND_NS - 1, 1_006),  # a byte counts when it is complete
    ],
)
def test_a_steady_flow_adds_its_rate(at_ns: int, expected: int) -> None:
    assert count_bytes(Leg(1_000, 7, 5 * SECOND_NS, 0, 0), at_ns) == expected


@pytest.mark.parametrize(
    ("at_ns", "expected"),
    [
        (36_000_000, 36_000),  # the whole first burst, 36 ms at 1 MB/s
        (18_000_000, 18_000),
        (999_000_000, 36_000),  # silence until the next
        (SECOND_NS + 1_000_000, 37_000),
        (10 * SECOND_NS, 360_000),
    ],
)
def test_bursts_add_only_while_they_last(at_ns: int, expected: int) -> None:
    assert count_bytes(Leg(0, 1_000_000, 0, 36_000_000, SECOND_NS), at_ns) == expected


def test_a_change_keeps_what_has_passed() -> None:
    traffic = Traffic(TrafficControl())
    traffic.change({FlowName.RX: Pace(1_000_000_000), FlowName.TX: Pace(3_000_000_000)})
    first = traffic.leg(FlowName.RX)
    traffic.change({FlowName.RX: Pace(0)})
    last = traffic.leg(FlowName.RX)
    assert last.base_bytes == last.since_ns - first.since_ns  # a byte per nanosecond
    assert traffic.passed_bytes(FlowName.RX, last.since_ns + SECOND_NS) == last.base_bytes
    assert traffic.leg(FlowName.TX).since_ns == first.since_ns, "the other way was not touched"


def test_a_past_moment_is_counted_at_the_rate_of_then() -> None:
    traffic = Traffic(TrafficControl())
    traffic.change({FlowName.TX: Pace(2_000_000_000)})
    began_ns = traffic.leg(FlowName.TX).since_ns
    traffic.change({FlowName.TX: Pace(5)})
    assert traffic.passed_bytes(FlowName.TX, began_ns + 500) == 1_000
    assert traffic.passed_bytes(FlowName.TX, began_ns - SECOND_NS) == 0


def test_a_counter_can_be_set_without_touching_the_rate() -> None:
    traffic = Traffic(TrafficControl())
    traffic.change({FlowName.RX: Pace(9)})
    traffic.set_passed(FlowName.RX, 2**32 - 5)
    assert traffic.leg(FlowName.RX).base_bytes == 2**32 - 5
    assert traffic.leg(FlowName.RX).bytes_per_second == 9


@given(
    st.integers(0, 2**40),
    st.integers(0, 100_000_000_000),
    st.integers(0, 2_000_000),
    st.integers(0, 3_000_000),
    st.lists(st.integers(0, 10 * SECOND_NS), min_size=2),
)
def test_a_counter_never_runs_backwards(
    base: int, rate: int, on_us: int, pause_us: int, moments: list[int]
) -> None:
    period_us = on_us + pause_us
    leg = Leg(base, rate, SECOND_NS, on_us * 1_000, period_us * 1_000)
    counts = [count_bytes(leg, at_ns) for at_ns in sorted(moments)]
    assert counts == sorted(counts)
    assert counts[0] >= base


def test_the_library_counts_the_same_to_the_byte(
    driver: FakeDriver, start: Callable[[FakeDriver, str], CompletedProcess[str]]
) -> None:
    draw = random.Random()
    cases = [
        (
            (
                draw.getrandbits(draw.randrange(1, 50)),
                draw.randrange(130_000_000_000),
                draw.randrange(10 * SECOND_NS),
                draw.randrange(SECOND_NS),
                draw.choice((0, SECOND_NS, draw.randrange(SECOND_NS, 4 * SECOND_NS))),
            ),
            draw.randrange(10_000 * SECOND_NS),
        )
        for _ in range(500)
    ]
    done = start(driver, f"CASES = {cases!r}\n{ASK_LIBRARY}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [count_bytes(Leg(*leg), at_ns) for leg, at_ns in cases]
