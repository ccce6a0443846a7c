from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from collector.source import SourceError
from collector.tap_request import ASGI, STATS, TapRequest
from collector.tap_requests import TapRequests, hash_of, shown_id
from collector.tap_sessions import TapSession
from tests.collector.fake_machine import FakeMachine

_TAP = TapSession((1, "s"), 0)


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


@pytest.fixture
def requests(fake: FakeMachine) -> TapRequests:
    return TapRequests(fake.machine.names)


def _begin(number: int, shown: str | None) -> TapRequest:
    return TapRequest(ASGI, number=number, id=shown)


def _end(number: int | None, shown: str | None) -> TapRequest:
    return TapRequest(ASGI, number=number, id=shown, finish="stop")


def _stats(engine_id: str | None, engine: int = 0) -> TapRequest:
    return TapRequest(STATS, id=engine_id, engine=engine)


@pytest.mark.parametrize(
    ("engine_id", "shown"),
    [
        ("cmpl-x-0", "cmpl-x"),
        ("cmpl-x-1", "cmpl-x-1"),
        ("cmpl-a-0-0", "cmpl-a-0"),
        ("chatcmpl-x", "chatcmpl-x"),
        ("chatcmpl-x-0", "chatcmpl-x-0"),  # the client called it so
        ("x-0", "x-0"),
    ],
)
def test_the_first_prompt_of_a_completion_is_the_request(engine_id: str, shown: str) -> None:
    assert shown_id(engine_id) == shown


@pytest.mark.parametrize("order", ["begin first", "statistics first"])
def test_both_taps_meet_in_one_request(requests: TapRequests, order: str) -> None:
    told = [_begin(4, "cmpl-x"), _stats("cmpl-x-0"), _end(4, "cmpl-x")]
    if order == "statistics first":
        told = [told[1], told[2]]  # a request without a stream is told of at its end only
    ids = {requests.follow(_TAP, one) for one in told}
    assert len(ids) == 1
    [name] = requests.take_names(5)
    assert name == {"wall_us": 5, "request": ids.pop(), "name": hash_of("cmpl-x")}


def test_further_prompts_are_requests_of_their_own(requests: TapRequests) -> None:
    first = requests.follow(_TAP, _begin(1, "cmpl-x"))
    assert requests.follow(_TAP, _stats("cmpl-x-0")) == first
    assert requests.follow(_TAP, _stats("cmpl-x-1")) != first


def test_several_answers_to_one_request_end_one_by_one(requests: TapRequests) -> None:
    first = requests.follow(_TAP, _begin(1, "cmpl-x"))
    assert [requests.follow(_TAP, _stats("cmpl-x-0")) for _ in range(3)] == [first] * 3
    assert requests.follow(_TAP, _end(1, "cmpl-x")) == first


def test_an_id_that_a_client_repeats_is_another_request(requests: TapRequests) -> None:
    rounds = []
    for number in range(3):
        told = [_begin(number, "cmpl-x"), _stats("cmpl-x-0"), _end(number, "cmpl-x")]
        rounds.append({requests.follow(_TAP, one) for one in told})
    assert all(len(ids) == 1 for ids in rounds)
    assert len(set.union(*rounds)) == 3
    assert len(requests.take_names(0)) == 3
    alone = {requests.follow(_TAP, _stats("again")) for _ in range(3)}
    assert len(alone) == 3


def test_an_id_that_two_open_requests_share_keeps_them_apart(requests: TapRequests) -> None:
    ids = [requests.follow(_TAP, _begin(number, "cmpl-x")) for number in (1, 2)]
    assert ids[0] != ids[1]


def test_chunks_have_the_request_of_their_number_before_and_after_it_is_announced(
    requests: TapRequests,
) -> None:
    early = requests.of_numbers(_TAP, np.array([7, 7, 8], dtype=np.uint32))
    announced = requests.follow(_TAP, _begin(7, "cmpl-x"))
    late = requests.of_numbers(_TAP, np.array([8, 7], dtype=np.uint32))
    assert early.tolist() == [announced, announced, late[0]]
    assert late[1] == announced
    assert early.dtype == np.uint32


def test_chunks_win_where_statistics_were_first(requests: TapRequests) -> None:
    [by_chunk] = requests.of_numbers(_TAP, np.array([7])).tolist()
    by_stats = requests.follow(_TAP, _stats("cmpl-x-0"))
    assert requests.follow(_TAP, _begin(7, "cmpl-x")) == by_chunk != by_stats
    named = [row["request"] for row in requests.take_names(0)]
    assert named == [by_stats, by_chunk]


def test_taps_do_not_share_numbers_or_ids(requests: TapRequests) -> None:
    other = TapSession((2, "s"), 0)
    ids = [requests.follow(tap, _begin(0, "cmpl-x")) for tap in (_TAP, other)]
    assert ids[0] != ids[1]


def test_a_request_without_an_id_has_no_name(requests: TapRequests) -> None:
    assert requests.follow(_TAP, _end(3, None)) is not None
    assert requests.follow(_TAP, _stats(None)) is not None
    assert requests.follow(_TAP, _end(None, None)) is None
    assert requests.take_names(0) == []


def test_the_engine_of_a_request_is_that_of_its_statistics(requests: TapRequests) -> None:
    requests.note_engine(_TAP, _stats("cmpl-x-0", engine=3))
    assert requests.engine_of(_TAP, _end(1, "cmpl-x")) == 3
    assert requests.engine_of(_TAP, _end(1, "cmpl-y")) is None
    assert requests.engine_of(_TAP, _end(1, None)) is None


def test_ids_come_in_blocks_and_are_never_given_twice(
    fake: FakeMachine, requests: TapRequests
) -> None:
    other = TapRequests(fake.machine.names)
    ids = [
        request
        for number in range(1_500)
        for taps in (requests, other)
        for request in taps.of_numbers(_TAP, np.array([number])).tolist()
    ]
    assert len(set(ids)) == 3_000
    assert fake.store.reserved["request"] == 4_001


def test_ids_that_are_used_up_are_an_error(fake: FakeMachine, requests: TapRequests) -> None:
    fake.store.reserved["request"] = 2**32 - 500
    with pytest.raises(SourceError, match="used up"):
        requests.of_numbers(_TAP, np.array([1]))


def test_what_is_remembered_is_bounded(requests: TapRequests) -> None:
    for number in range(0, 60_000, 2_000):
        requests.of_numbers(_TAP, np.arange(number, number + 2_000))
    for number in range(25_000):
        requests.follow(_TAP, _stats(f"id {number}"))
        requests.note_engine(_TAP, _stats(f"id {number}"))
    assert len(requests._by_number) == len(requests._by_id) == 20_000  # noqa: SLF001 - the bound
    assert len(requests._engines) == 20_000  # noqa: SLF001 - the same
    assert len(requests.take_names(0)) == 20_000


def test_others_are_told_of_each_request_that_has_an_id(fake: FakeMachine) -> None:
    told: dict[str, int] = {}
    requests = TapRequests(fake.machine.names, note_request=told.__setitem__)
    request = requests.follow(_TAP, _stats("cmpl-x-0"))
    assert told == {"cmpl-x": request}
