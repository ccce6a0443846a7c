from __future__ import annotations

from itertools import islice

import pytest

from lab.fuzz.datagrams import datagrams
from lab.fuzz.tap import Outcome, fuzz


@pytest.mark.slow
def test_twenty_thousand_broken_datagrams_break_nothing() -> None:
    outcome = fuzz(20_000, seed=20)
    assert outcome.crash == ""
    assert outcome.is_fine, outcome
    assert outcome.count == 20_000
    # Both kinds of datagrams are among them: good ones, which become rows, and broken ones.
    assert outcome.rows > 1_000
    assert outcome.rejects > 1_000


def test_the_same_seed_gives_the_same_datagrams() -> None:
    first, again, other = (list(islice(datagrams(seed, 1, 1), 300)) for seed in (3, 3, 4))
    assert first == again != other


def test_a_crash_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> object:
        raise ZeroDivisionError("no luck")

    monkeypatch.setattr("lab.fuzz.tap.EngineSteps.read", crash)
    outcome = fuzz(1_000, seed=1)
    assert not outcome.is_fine
    assert outcome.crash == "ZeroDivisionError: no luck, within datagrams 0 to 200"


def test_memory_that_grows_is_a_fault() -> None:
    grown = Outcome(count=1, rows=0, rejects=0, growth_mb=49.0, seconds=1.0)
    assert not grown.is_fine
