"""A short run of the fuzzer; `python -m lab.fuzz.otlp --count 1000000` is the long one."""

from __future__ import annotations

import random

import pytest

from lab.fuzz import otlp
from stallscope.exposition.reply import Reply, Sent


def test_two_thousand_bodies_are_answered_as_promised() -> None:
    fuzzer = otlp.Fuzzer(seed=random.SystemRandom().randrange(2**32))
    fuzzer.run(2_000)
    assert set(fuzzer.statuses) == {200, 400, 415}
    assert fuzzer.rows > 0


def test_the_same_seed_makes_the_same_bodies() -> None:
    first, second = (otlp.make(random.Random(7)) for _ in range(2))
    assert first == second


def test_a_crash_is_told_with_its_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def __init__(self, intake: object) -> None:
            del intake

        def answer(self, sent: Sent) -> Reply:
            raise ZeroDivisionError(len(sent.body))

    monkeypatch.setattr(otlp, "Traces", Broken)
    assert otlp.main(["--count", "1", "--seed", "11"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("seed 11: ZeroDivisionError")
