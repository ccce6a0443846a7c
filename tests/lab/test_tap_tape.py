from __future__ import annotations

import numpy as np

from collector.tap_wire import Kind, Message, parse_message
from lab.bench.tap_tape import EngineTap, Letter
from lab.synthetic.tokens import make_tape
from stallscope.clock import Instant
from stallscope.units import US_PER_SECOND

_RUNNING = 16
_TAPE = make_tape(2_000, 2, [_RUNNING, 32])
_BEGIN = Instant(1_700_000_000_000_000, 50_000_000)


def _play(seconds: float) -> list[tuple[Letter, Message]]:
    """Play engine 1's part for so long, ten times a second, and read it as the collector does."""
    tap = EngineTap(_TAPE, 1, _RUNNING, _BEGIN)
    letters: list[Letter] = []
    for turn in range(1, round(seconds * 10) + 1):
        past_us = turn * US_PER_SECOND // 10
        letters += tap.take(Instant(_BEGIN.wall_us + past_us, _BEGIN.mono_us + past_us))
    return [(letter, parse_message(letter.data)) for letter in letters]


def _column(played: list[tuple[Letter, Message]], kind: Kind, name: str) -> list[int]:
    parts = [message.columns[name] for _, message in played if message.kind is kind]
    return [int(value) for value in np.concatenate(parts)]


def test_every_row_of_the_tape_is_sent_once_a_lap_with_its_time() -> None:
    played = _play(4.0)
    mine = _TAPE.engine == 1
    lap = [int(value) for value in _TAPE.offset_us[mine] + _BEGIN.mono_us]
    again = [value + _TAPE.length_us for value in lap]
    assert _column(played, Kind.GAPS, "mono_us") == [*lap, *again]
    assert sum(letter.gaps for letter, _ in played) == 2 * len(lap)


def test_requests_are_told_of_before_their_chunks_and_are_new_in_each_lap() -> None:
    played = _play(4.0)
    known: set[int | None] = set()
    begun: list[int | None] = []
    for _, message in played:
        begun += [r.number for r in message.requests if not r.has_ended]
        known.update(begun)
        if message.kind is Kind.GAPS:
            assert known.issuperset(message.columns["request"].tolist())
    assert len(begun) == len(set(begun))


def test_a_request_ends_when_another_takes_its_place() -> None:
    played = _play(4.0)
    told = [request for _, message in played for request in message.requests]
    ended = [request for request in told if request.has_ended]
    begun = len(told) - len(ended)
    assert [one.source for one in ended[:2]] == ["asgi", "stats"]
    assert len(ended) == 2 * (begun - _RUNNING)  # those that run at the end have not ended


def test_a_step_has_an_output_for_each_running_request() -> None:
    played = _play(2.0)
    outputs = _column(played, Kind.STEPS, "outputs")
    assert set(outputs) == {_RUNNING}
    assert sum(letter.steps for letter, _ in played) == len(outputs)
    rows = sum(letter.gaps for letter, _ in played)
    assert abs(sum(outputs) - rows) <= _RUNNING * 20  # a batch may cut a step
    assert all(message.rejects == 0 for _, message in played)


def test_nothing_is_sent_where_nothing_is_due() -> None:
    tap = EngineTap(_TAPE, 1, _RUNNING, _BEGIN)
    assert list(tap.take(_BEGIN)) == []
