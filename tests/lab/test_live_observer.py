from __future__ import annotations

import json
import struct
from collections.abc import Sequence

import pytest

from lab.live.inline_cost import InlineCost, check_costs, parse_costs
from lab.live.intervals import Interval, bootstrap, changes, is_separable
from lab.live.observer import Stretch, check_effect, make_stretch
from lab.live.stream import Timings


def test_bootstrap_of_equal_values_has_no_width() -> None:
    assert bootstrap([0.25] * 7) == Interval(0.25, 0.25, 0.25)


def test_bootstrap_interval_is_that_of_a_mean() -> None:
    """Of 100 values, half 0 and half 2, the mean has a standard error of 0.1."""
    found = bootstrap([0.0, 2.0] * 50)
    assert found.middle == 1.0
    assert found.low == pytest.approx(1 - 1.96 * 0.1, abs=0.03)
    assert found.high == pytest.approx(1 + 1.96 * 0.1, abs=0.03)


def test_changes_are_shares_of_the_partner() -> None:
    assert changes([11.0, 4.0], [10.0, 5.0]) == pytest.approx([0.1, -0.2])


@pytest.mark.parametrize(
    ("effect", "control", "separable"),
    [
        (Interval(0.02, 0.03, 0.04), Interval(-0.01, 0.0, 0.01), True),
        (Interval(-0.04, -0.03, -0.02), Interval(-0.01, 0.0, 0.01), True),
        (Interval(-0.01, 0.03, 0.07), Interval(-0.01, 0.0, 0.01), False),
        (Interval(0.02, 0.03, 0.04), Interval(-0.05, -0.01, 0.03), False),
    ],
    ids=["slower", "faster", "may be nothing", "no more than the control"],
)
def test_effect_must_be_something_and_more_than_the_control(
    effect: Interval, control: Interval, *, separable: bool
) -> None:
    assert is_separable(effect, control) is separable


def _rounds(on_us: Sequence[float]) -> list[dict[str, Stretch]]:
    """Rounds in which without taps a pause is 10 ms, give or take a little."""
    noise = [9_990.0, 10_010.0] * len(on_us)
    return [
        {
            "on": Stretch(us, 100_000 / us, []),
            "off": Stretch(10_000.0, 10.0, []),
            "control": Stretch(noise[place], 10.0, []),
        }
        for place, us in enumerate(on_us)
    ]


def test_taps_that_cost_a_tenth_are_seen_in_both_figures() -> None:
    checks = check_effect(_rounds([11_000.0] * 8))
    assert [check.holds for check in checks] == [False, False]
    assert "on/off +10.00 %" in checks[0].detail


def test_taps_that_cost_less_than_the_control_moves_are_not_seen() -> None:
    checks = check_effect(_rounds([10_005.0] * 8))
    assert checks[0].holds is True
    assert "nothing below 0.1 % can be seen" in checks[0].detail


def test_pauses_are_counted_per_token_however_chunks_are_bunched() -> None:
    """Three requests of 10, 20 and 90 ms a token; of the second, two tokens came as one chunk."""
    requests = [
        Timings(0, chunks_us=[5_000, 15_000, 25_000], end_us=26_000, output_tokens=3),
        Timings(1_000, chunks_us=[2_000, 42_000], end_us=50_000, output_tokens=3),
        Timings(2_000, chunks_us=[3_000, 93_000], end_us=100_000, output_tokens=2),
    ]
    found = make_stretch(requests)
    assert (found.itl_us, found.tokens_per_second) == (20_000, 80)


def test_cost_is_read_from_the_header() -> None:
    text = json.dumps({"rows": 0, "inline_us": {"record": [3.1, 9.5, 80, 1_200]}}).encode()
    datagram = struct.pack("<4sBBHI", b"SSTP", 1, 1, 0, len(text)) + text
    assert parse_costs(datagram) == {"record": InlineCost(3.1, 9.5, 80, 1_200)}


def test_share_of_a_step_has_one_record_and_a_send_per_output() -> None:
    costs = {"record": InlineCost(4, 20, 90, 10), "send": InlineCost(3, 101, 120, 100)}
    record, send, share = check_costs(costs, step_us=10_000, outputs=12)
    assert (record.holds, send.holds) == (True, False)  # p99 of a send is above its bar
    assert "40 us of 10.0 ms (12.0 outputs): 0.40 %" in share.detail
    assert share.judged is False
