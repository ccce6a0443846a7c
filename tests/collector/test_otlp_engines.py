"""Whose request a span tells of."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.known_engine import KnownEngine
from collector.otlp_engines import OriginBook
from collector.otlp_spans import Origin
from tests.collector.fake_machine import FakeMachine


def _engine(number: int, name: str, rank: str = "", model: str = "qwen") -> KnownEngine:
    port = 8_000 + number
    return KnownEngine(
        engine=number,
        name=name,
        endpoint=f"http://127.0.0.1:{port}",
        host="127.0.0.1",
        port=port,
        rank=rank,
        model=model,
        seen_mono_us=0,
    )


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def _book(fake: FakeMachine, *engines: KnownEngine) -> OriginBook:
    return OriginBook(fake.machine, lambda: engines)


def _origin(service: str = "unknown_service:python", model: str = "", instance: str = "") -> Origin:
    return Origin(service, instance, model)


def test_the_only_engine_is_meant(fake: FakeMachine) -> None:
    book = _book(fake, _engine(40, "chat"))
    assert book.engine_of(_origin()) == 40
    assert book.engine_of(_origin("anything")) == 40
    assert book.engine_of(_origin(model="qwen")) == 40
    assert fake.store.stored == {}


def test_another_model_than_the_only_engines_is_another_engine(fake: FakeMachine) -> None:
    assert _book(fake, _engine(40, "chat")).engine_of(_origin(model="llama")) != 40
    (row,) = fake.store.stored["engine"]
    assert (row["endpoint"], row["kind"], row["model"]) == ("otlp", "vllm", "llama")


def test_the_engine_that_a_service_is_named_after_is_meant(fake: FakeMachine) -> None:
    book = _book(fake, _engine(40, "chat"), _engine(41, "code"))
    assert book.engine_of(_origin("code")) == 41
    assert book.engine_of(_origin("pool", instance="chat")) == 40


def test_the_only_one_that_serves_the_model_is_meant(fake: FakeMachine) -> None:
    book = _book(fake, _engine(40, "chat"), _engine(41, "code", model="llama"))
    assert book.engine_of(_origin(model="llama")) == 41


def test_ranks_of_one_address_cannot_be_told_apart(fake: FakeMachine) -> None:
    book = _book(fake, _engine(40, "chat", "0"), _engine(41, "chat", "1"))
    number = book.engine_of(_origin("chat", model="qwen"))
    assert number not in {40, 41}
    (row,) = fake.store.stored["engine"]
    assert (row["name"], row["endpoint"], row["rank"]) == ("chat", "otlp/chat", "")


def test_an_engine_without_a_page_has_an_id_of_its_own(fake: FakeMachine) -> None:
    book = _book(fake)
    unnamed, named = book.engine_of(_origin()), book.engine_of(_origin("chat"))
    assert unnamed != named
    assert book.engine_of(_origin()) == unnamed
    rows = fake.store.stored["engine"]
    assert [row["name"] for row in rows] == ["otlp", "chat"]
    assert [row["endpoint"] for row in rows] == ["otlp", "otlp/chat"]
    assert {row["host"] for row in rows} == {"host-1"}


def test_names_from_outside_cannot_use_up_the_ids(fake: FakeMachine) -> None:
    book = _book(fake)
    numbers = {book.engine_of(_origin(f"service-{number}")) for number in range(200)}
    assert len(numbers) == 65  # 64 by name, all others under one
    assert len(fake.store.stored["engine"]) == 65
    assert book.engine_of(_origin("service-0")) == min(numbers)


def test_an_engine_that_is_found_later_is_meant_from_then_on(fake: FakeMachine) -> None:
    engines: list[KnownEngine] = []
    book = OriginBook(fake.machine, lambda: engines)
    before = book.engine_of(_origin())
    engines.append(_engine(before + 100, "chat"))
    assert book.engine_of(_origin()) == before + 100
