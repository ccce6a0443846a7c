from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from pathlib import Path

import pytest

from collector.known_engine import KnownEngine
from collector.source import Row, SourceError
from collector.tap_engines import Index, TapEngines
from collector.tap_sessions import TapSession
from tests.collector.fake_machine import FakeMachine
from tests.collector.stand_ins import SECOND
from tests.collector.tap_stand_ins import known_engine

_START = 1_000 * SECOND


class _Book:
    """TapEngines over a fake machine, with the engines whose pages are read."""

    def __init__(self, root: Path) -> None:
        self.fake = FakeMachine(root)
        self.pages: list[KnownEngine] = []
        self.engines = TapEngines(self.fake.machine, lambda: self.pages)

    def find(self, session: TapSession, index: Index, after_us: int = 0) -> int | None:
        found = self.engines.find(session, [index], _START + after_us)
        return None if found is None else found[index]

    def own(self) -> list[Row]:
        return self.fake.store.stored.get("engine", [])


@pytest.fixture
def book(tmp_path: Path) -> _Book:
    return _Book(tmp_path)


def _session(name: str = "s", port: int | None = 8000, model: str | None = "tiny") -> TapSession:
    return TapSession((1, name), _START, port=port, model=model, engine_version="0.32.0")


def test_port_and_rank_name_the_engine(book: _Book) -> None:
    book.pages = [
        known_engine(1, port=8000, rank="0"),
        known_engine(2, port=8000, rank="1"),
        known_engine(3, port=8001, rank="0"),
    ]
    assert book.find(_session(), 0) == 1
    assert book.find(_session(), 1) == 2
    assert book.find(_session("t", port=8001), 0) == 3
    assert book.own() == []


def test_a_page_read_before_the_tap_spoke_may_be_of_the_engine_before(book: _Book) -> None:
    book.pages = [dataclasses.replace(known_engine(1), seen_mono_us=_START - 1)]
    assert book.find(_session(), 0) is None
    book.pages = [dataclasses.replace(known_engine(2), seen_mono_us=_START)]
    assert book.find(_session(), 0, SECOND) == 2


def test_the_engine_of_the_one_page_at_a_port_is_that_of_chunks(book: _Book) -> None:
    book.pages = [known_engine(4)]
    assert book.find(_session(), None) == 4


def test_an_engine_without_ranks_is_that_of_any_index(book: _Book) -> None:
    book.pages = [known_engine(4, rank="")]
    assert book.find(_session(), 0) == 4


def test_several_models_at_one_port_are_told_apart_by_the_model(book: _Book) -> None:
    book.pages = [known_engine(1, model="large"), known_engine(2, model="tiny")]
    assert book.find(_session(), 0) == 2


def test_a_tap_that_knows_no_port_is_found_by_its_model(book: _Book) -> None:
    book.pages = [known_engine(1, port=8000, model="large"), known_engine(2, port=8001)]
    assert book.find(_session(port=None), 0) == 2
    assert book.find(_session("t", port=None, model=None), 0) is None


def test_an_engine_of_this_host_goes_before_one_of_another_at_the_same_port(book: _Book) -> None:
    book.pages = [known_engine(1, host="10.0.0.9"), known_engine(2, host="localhost")]
    assert book.find(_session(), 0) == 2
    book.pages = [known_engine(3, host="10.0.0.9"), known_engine(4, host="host-1")]
    assert book.find(_session("t"), 0) == 4


def test_equal_engines_of_other_hosts_are_not_guessed_between(book: _Book) -> None:
    book.pages = [known_engine(1, host="10.0.0.8"), known_engine(2, host="10.0.0.9")]
    assert book.find(_session(), 0) is None


def test_without_a_page_it_gets_an_id_of_its_own_after_five_seconds(book: _Book) -> None:
    session = _session()
    assert book.find(session, 1) is None
    assert book.find(session, 1, 5 * SECOND - 1) is None
    engine = book.find(session, 1, 5 * SECOND)
    [facts] = book.own()
    assert facts["engine"] == engine
    named = ("endpoint", "rank", "model", "name", "kind", "version", "host")
    assert {name: facts[name] for name in named} == {
        "endpoint": "127.0.0.1:8000",
        "rank": "1",
        "model": "tiny",
        "name": "vllm:8000/1",
        "kind": "vllm",
        "version": "0.32.0",
        "host": "host-1",
    }


def test_a_tap_that_comes_again_has_the_same_own_id(book: _Book) -> None:
    ids = set()
    for name in ("a", "b"):
        session = _session(name)
        book.find(session, 0)
        ids.add(book.find(session, 0, 5 * SECOND))
    assert len(ids) == 1
    assert len(book.own()) == 1


def test_a_page_that_is_found_later_wins(book: _Book) -> None:
    session = _session()
    book.find(session, 0)
    own = book.find(session, 0, 5 * SECOND)
    book.pages = [known_engine(77)]
    assert book.find(session, 0, 5 * SECOND + 1) == own  # it looks once a second
    assert book.find(session, 0, 6 * SECOND) == 77
    book.pages = []
    assert book.find(session, 0, 60 * SECOND) == 77


def test_chunks_go_to_the_rank_of_the_steps_where_nothing_else_is_known(book: _Book) -> None:
    session = _session()
    session.engines.add(0)
    for index in (0, None):
        book.find(session, index)
    assert book.find(session, None, 5 * SECOND) == book.find(session, 0, 5 * SECOND)
    session = _session("two ranks")
    session.engines |= {0, 1}
    book.find(session, None)
    engine = book.find(session, None, 5 * SECOND)
    [facts] = [row for row in book.own() if row["engine"] == engine]
    assert facts["rank"] == ""


def test_one_engine_that_is_not_known_yet_holds_the_datagram(book: _Book) -> None:
    book.pages = [known_engine(1, rank="0")]
    session = _session()
    assert book.engines.find(session, [0, 1], _START) is None
    found = book.engines.find(session, [0, 1], _START + 5 * SECOND)
    assert found is not None
    assert found[0] == 1
    assert found[1] == book.own()[0]["engine"]


def test_strangers_cannot_use_up_the_ids_of_the_lake(book: _Book) -> None:
    for number in range(400):
        session = _session(str(number), model=f"model {number}")
        book.find(session, 0)
        refusal = pytest.raises(SourceError, match="told of 256 engines")
        with refusal if number >= 256 else nullcontext():
            book.find(session, 0, 5 * SECOND)
    assert len(book.own()) == 256


def test_pages_are_read_less_often_once_every_live_tap_has_found_its_own(book: _Book) -> None:
    session, other = _session(), _session("b", port=9000)
    book.pages = [known_engine(5)]
    book.find(session, 0)
    assert book.engines.settled([session], _START) == frozenset({5})
    book.find(other, 0)
    assert book.engines.settled([session, other], _START) == frozenset()
    book.find(other, 0, 6 * SECOND)  # it has an id of its own now, and no page
    assert book.engines.settled([session, other], _START + 6 * SECOND) == frozenset({5})
    assert book.engines.settled([], _START) == frozenset()
