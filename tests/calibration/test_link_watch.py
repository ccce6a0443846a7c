"""Which state of a link figures hold for: what it was under load, not what it is when idle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.calibration.link_watch import LinkWatch, Watched, is_below_full, watched
from collector.edges.nvml_process import NoAnswerError
from collector.link_capacity import LinkState
from collector.nvml.messages import LinkAnswer, LinkSample, Trouble, TroubleKind
from tests.calibration.gpu_stand_ins import GPU, OTHER_GPU, StandInGpus, link_sample

FULL = LinkState(5, 16)
BUSY_RX, BUSY_TX = link_sample(rx=55e9, tx=0.1e9), link_sample(rx=0.1e9, tx=57e9)


def _at(generation: int | None, width: int | None, busy: LinkSample = BUSY_RX) -> LinkSample:
    return replace(busy, generation=generation, width=width)


def test_an_idle_link_that_stepped_down_does_not_count() -> None:
    """Seen in the field: generation 1 while idle (open-gpu-kernel-modules#731)."""
    idle = [link_sample(link=(1, 16)) for _ in range(9)]
    assert watched(GPU, [*idle, BUSY_RX]) == Watched(FULL)


@pytest.mark.parametrize("busy", [BUSY_RX, BUSY_TX], ids=["rx", "tx"])
def test_a_link_that_stays_down_under_load_is_shown(busy: LinkSample) -> None:
    assert watched(GPU, [_at(2, 8, busy)]) == Watched(LinkState(2, 8))
    assert is_below_full(GPU, LinkState(2, 8))


def test_a_link_that_flaps_is_what_it_mostly_was_and_the_rest_is_told() -> None:
    samples = [BUSY_RX] * 3 + [_at(4, 8), _at(4, 16)]
    assert watched(GPU, samples) == Watched(FULL, (LinkState(4, 16), LinkState(4, 8)))


def test_a_window_in_which_the_link_changed_is_left_out() -> None:
    changed = replace(_at(1, 16), link_changed=True)
    assert watched(GPU, [changed, changed, BUSY_TX]) == Watched(FULL)


def test_without_rates_the_fastest_state_counts() -> None:
    samples = [link_sample(None, None, link=link) for link in ((1, 16), (4, 16), (3, 16))]
    assert watched(GPU, samples) == Watched(LinkState(4, 16))


def test_without_link_state_there_is_none() -> None:
    assert watched(GPU, [_at(None, 16), _at(5, None), _at(0, 16)]) == Watched(None)
    assert watched(GPU, []) == Watched(None)


def test_without_a_known_maximum_no_link_is_below_it() -> None:
    unknown = replace(GPU, max_generation=None, max_width=None)
    assert not is_below_full(unknown, LinkState(1, 1))
    assert watched(unknown, [BUSY_RX]) == Watched(FULL)


def test_a_look_sees_only_its_gpu() -> None:
    other = replace(_at(3, 4), uuid=OTHER_GPU.uuid)
    watch = LinkWatch(GPU, StandInGpus([[other], [other, BUSY_TX]]).ask_link)
    watch.look()
    assert watch.watched() == Watched(None)
    watch.look()
    assert watch.watched() == Watched(FULL)


def test_a_look_that_nvml_fails_is_none() -> None:
    answers: list[LinkSample | None] = [None, BUSY_TX, None]

    def ask() -> LinkAnswer:
        sample = answers.pop(0)
        if sample is None:
            raise NoAnswerError(Trouble(TroubleKind.FAILED, "no answer within 1.5 s"))
        return LinkAnswer(samples=(sample,))

    watch = LinkWatch(GPU, ask)
    for _ in range(3):
        watch.look()
    assert watch.watched() == Watched(FULL)


def test_a_link_stuck_at_generation_1_is_loaded_by_the_little_it_can_carry() -> None:
    """3.6 GB/s are nearly all of generation 1, and less than 5 % of generation 6."""
    fast = replace(GPU, max_generation=6)
    stuck = replace(link_sample(rx=3.6e9, tx=0.1e9), generation=1)
    passing = replace(link_sample(rx=0.0, tx=0.0), generation=4)
    assert watched(fast, [stuck, stuck, passing]) == Watched(LinkState(1, 16))
