from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from collector.nvml.crosscheck import Rates, Suspicion, Verdict

STILL = Rates(0.0, 0.0)
MOVES = Rates(5e9, 2e9)
BLIND = Rates(None, None)

moving = st.floats(2e6, 1e12)


def feed(suspicion: Suspicion, rates: Rates, opinion: Rates, busy: float | None = 0.0) -> Verdict:
    """Hand in one sample, with the opinion if it is wanted."""
    return suspicion.note(rates, opinion if suspicion.wants_opinion() else None, busy)


@given(st.lists(st.tuples(moving, moving), min_size=1, unique=True, max_size=40))
def test_what_moves_is_never_asked_about(pairs: list[tuple[float, float]]) -> None:
    suspicion = Suspicion()
    last: tuple[float, float] | None = None
    for pair in pairs:
        if last is not None and (pair[0] == last[0] or pair[1] == last[1]):
            continue
        last = pair
        assert feed(suspicion, Rates(*pair), MOVES) is Verdict.SOUND
        assert not suspicion.wants_opinion()


def test_three_samples_that_stand_still_and_two_contradictions_break_a_source() -> None:
    suspicion = Suspicion()
    verdicts = [feed(suspicion, STILL, MOVES) for _ in range(5)]
    assert verdicts == [Verdict.SOUND] * 4 + [Verdict.BROKEN]


def test_one_contradiction_alone_breaks_nothing() -> None:
    """A burst may lie between the end of the window and the second look."""
    suspicion = Suspicion()
    for _ in range(3):
        feed(suspicion, STILL, STILL)
    assert feed(suspicion, STILL, MOVES) is Verdict.SOUND
    assert {feed(suspicion, STILL, STILL) for _ in range(200)} == {Verdict.SOUND}


def test_moving_again_clears_it() -> None:
    suspicion = Suspicion()
    for _ in range(4):
        feed(suspicion, STILL, MOVES)
    feed(suspicion, Rates(1e9, 3e9), MOVES)
    verdicts = [feed(suspicion, STILL, MOVES) for _ in range(4)]
    assert Verdict.BROKEN not in verdicts


def test_an_idle_link_is_compared_more_and_more_rarely() -> None:
    suspicion = Suspicion()
    asked = []
    for sample in range(1_000):
        if suspicion.wants_opinion():
            asked.append(sample)
        feed(suspicion, STILL, STILL)
    pauses = [later - sooner for sooner, later in pairwise(asked)]
    assert asked[0] == 3
    assert pauses == sorted(pauses)
    assert pauses[-1] == 64
    assert len(asked) < 25


def test_little_traffic_does_not_contradict_zero() -> None:
    """Drivers up to 536 round the second opinion to whole MB."""
    suspicion = Suspicion()
    verdicts = {feed(suspicion, STILL, Rates(1e6, 5e5)) for _ in range(300)}
    assert verdicts == {Verdict.SOUND}


def test_a_value_that_never_changes_is_broken_when_another_differs() -> None:
    suspicion = Suspicion()
    frozen = Rates(104_857_600.0, 104_857_600.0)
    verdicts = [feed(suspicion, frozen, MOVES) for _ in range(5)]
    assert verdicts[-1] is Verdict.BROKEN


def test_a_steady_flow_that_another_confirms_is_sound() -> None:
    suspicion = Suspicion()
    steady = Rates(5e9, 2e9)
    assert {feed(suspicion, steady, Rates(4.9e9, 2.1e9)) for _ in range(50)} == {Verdict.SOUND}


def test_one_direction_that_stands_still_is_enough() -> None:
    suspicion = Suspicion()
    verdicts = [feed(suspicion, Rates(1e9 + i, 0.0), MOVES) for i in range(5)]
    assert verdicts[-1] is Verdict.BROKEN


def test_zero_on_a_busy_gpu_is_stale_when_nothing_else_can_tell() -> None:
    suspicion = Suspicion()
    verdicts = [feed(suspicion, STILL, BLIND, 0.4) for _ in range(6)]
    assert verdicts == [Verdict.SOUND] * 3 + [Verdict.STALE] * 3
    assert feed(suspicion, Rates(1e9, 1e9), BLIND, 0.4) is Verdict.SOUND


def test_zero_is_not_stale_on_an_idle_gpu_or_when_that_is_unknown() -> None:
    for busy in (0.0, None):
        suspicion = Suspicion()
        assert {feed(suspicion, STILL, BLIND, busy) for _ in range(6)} == {Verdict.SOUND}


def test_a_frozen_value_without_a_second_opinion_is_left_alone() -> None:
    suspicion = Suspicion()
    frozen = Rates(1e8, 1e8)
    assert {feed(suspicion, frozen, BLIND, 0.9) for _ in range(6)} == {Verdict.SOUND}


def test_samples_without_a_value_say_nothing() -> None:
    suspicion = Suspicion()
    assert {feed(suspicion, Rates(None, None), MOVES) for _ in range(9)} == {Verdict.SOUND}
    assert not suspicion.wants_opinion()
