from __future__ import annotations

import pytest

from collector.link_capacity import LinkState
from collector.link_load import DowntrainJudge, are_both_busy, is_loaded

GEN5 = LinkState(5, 16)  # 63.0 GB/s raw: 5 % are 3.15


@pytest.mark.parametrize(
    ("now", "best", "rate", "loaded"),
    [
        (GEN5, GEN5, 3.1e9, False),
        (GEN5, GEN5, 3.2e9, True),
        # Idle at generation 1 with a trickle: background traffic, not load.
        (LinkState(1, 16), GEN5, 0.4e9, False),
        (LinkState(1, 16), GEN5, 3.2e9, True),
        # A generation 6 link stuck at 1 carries 4 of 118 GB/s: never 5 %, and full all the same.
        (LinkState(1, 16), LinkState(6, 16), 3.0e9, True),
        (LinkState(1, 16), LinkState(6, 16), 1.9e9, False),
    ],
)
def test_load_is_five_percent_of_the_best_or_half_of_what_there_is(
    now: LinkState, best: LinkState, rate: float, *, loaded: bool
) -> None:
    assert is_loaded(rate, now, best) is loaded


@pytest.mark.parametrize(
    ("rx", "tx", "busy"), [(0.61, 0.9, True), (0.9, 0.59, False), (1.0, 0.0, False)]
)
def test_both_are_busy_only_when_each_is(rx: float, tx: float, *, busy: bool) -> None:
    assert are_both_busy(rx, tx) is busy


def test_a_link_is_slow_after_three_loaded_samples_in_a_row() -> None:
    judge = DowntrainJudge()
    verdicts = [judge.judge(LinkState(2, 16), 5, 16) for _ in range(4)]
    assert verdicts == [None, None, True, True]
    assert judge.judge(GEN5, 5, 16) is False
    assert judge.judge(LinkState(2, 16), 5, 16) is None


def test_idle_in_between_is_no_row() -> None:
    judge = DowntrainJudge()
    for _ in range(5):
        assert judge.judge(LinkState(1, 16), 5, 16) is None
        assert judge.judge(LinkState(1, 16), 5, 16) is None
        judge.rest()


def test_a_card_that_is_wired_narrower_is_not_judged_by_what_one_end_says() -> None:
    """T4, A10G and L40S tell 16 lanes and have 8: without sysfs nothing says which is true."""
    judge = DowntrainJudge()
    judge.see(8)
    assert [judge.judge(LinkState(3, 8), 3, None) for _ in range(4)] == [False] * 4


def test_a_link_that_was_wider_before_is_too_narrow_now() -> None:
    judge = DowntrainJudge()
    judge.see(16)
    assert [judge.judge(LinkState(4, 8), 4, None) for _ in range(3)] == [None, None, True]


def test_a_link_narrower_than_both_its_ends_is_too_narrow() -> None:
    judge = DowntrainJudge()
    judge.see(8)
    assert [judge.judge(LinkState(4, 8), 4, 16) for _ in range(3)] == [None, None, True]
