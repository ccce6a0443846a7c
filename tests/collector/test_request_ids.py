"""Taps and traces of one request meet at one id, and only hashes of the engine's ids are kept."""

from __future__ import annotations

import hashlib
import threading

import pytest

from collector.names import StoredNames
from collector.request_ids import RequestIds
from collector.source import SourceError
from stallscope.errors import LakeError
from tests.collector.stand_ins import ManualClock, MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def ids(store: MemoryStore) -> RequestIds:
    return RequestIds(StoredNames(store, ManualClock()))


def test_the_same_engine_id_is_the_same_request(ids: RequestIds) -> None:
    first, second, again = ids.ids_of(["chatcmpl-a", "chatcmpl-b", "chatcmpl-a"])
    assert first == again
    assert first != second
    assert ids.ids_of(["chatcmpl-b"]) == [second]


def test_what_a_tap_was_told_first_is_what_a_trace_gets(ids: RequestIds) -> None:
    ids.note("cmpl-a", 77)  # the answer's spelling; the trace numbers the prompts
    assert ids.ids_of(["cmpl-a-0", "cmpl-a-1"])[0] == 77
    assert ids.ids_of(["cmpl-a-1"]) != [77]


def test_an_id_that_ends_like_a_number_of_a_prompt_is_not_cut_twice(ids: RequestIds) -> None:
    ids.note("cmpl-x-0", 77)  # the client called it x-0
    assert ids.ids_of(["cmpl-x-0-0"]) == [77]
    assert ids.ids_of(["cmpl-x-0"]) != [77]  # the first prompt of a request called x


def test_names_are_hashes_and_told_once(ids: RequestIds) -> None:
    ids.note("told-by-a-tap", 5)
    (number,) = ids.ids_of(["customer@example.org"])
    ids.ids_of(["customer@example.org", "told-by-a-tap"])
    name = hashlib.blake2b(b"customer@example.org", digest_size=16).hexdigest()
    assert ids.take_names(9) == [{"wall_us": 9, "request": number, "name": name}]
    assert ids.take_names(9) == []


def test_names_are_the_ids_where_that_is_allowed(store: MemoryStore) -> None:
    ids = RequestIds(StoredNames(store, ManualClock()), store_ids=True)
    (number,) = ids.ids_of(["cmpl-a-0"])
    assert ids.take_names(9) == [{"wall_us": 9, "request": number, "name": "cmpl-a"}]


def test_ids_come_in_blocks(ids: RequestIds, store: MemoryStore) -> None:
    assert len(set(ids.ids_of([f"r{number}" for number in range(1_001)]))) == 1_001
    assert store.reserved == {"request": 2_001}


def test_only_the_last_requests_are_known(store: MemoryStore) -> None:
    ids = RequestIds(StoredNames(store, ManualClock()), most_known=2)
    first, second = ids.ids_of(["a", "b"])
    assert ids.ids_of(["a"]) == [first]  # met again: now b is the oldest
    ids.ids_of(["c"])
    assert ids.ids_of(["a"]) == [first]
    assert ids.ids_of(["b"]) != [second]


def test_no_ids_can_be_had_without_a_disk() -> None:
    class FullStore(MemoryStore):
        def reserve(self, kind: str, count: int = 1, /) -> int:
            raise LakeError(f"no room for {count} ids of {kind}")

    ids = RequestIds(StoredNames(FullStore(), ManualClock()))
    with pytest.raises(SourceError, match="no room for 1000 ids"):
        ids.ids_of(["a"])


def test_threads_share_ids(ids: RequestIds) -> None:
    found: list[list[int]] = []
    names = [f"r{number}" for number in range(500)]
    threads = [threading.Thread(target=lambda: found.append(ids.ids_of(names))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 4
    assert len(set(found[0])) == 500
