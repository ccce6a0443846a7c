"""The tap of vLLM and the collector share no code; here the one writes what the other reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.tap_wire import Kind, parse_message
from stallscope.columns import Kind as ColumnKind
from stallscope.schema import table
from stallscope_vllm import wire
from stallscope_vllm.request_facts import EMPTY
from tests.collector.tap_stand_ins import TapHost

_HEADER = {
    "tap": "0.1.0",
    "pid": 7,
    "session": "5f",
    "server": 1,
    "port": 8000,
    "model": "tiny",
    "engine_version": "0.32.0",
    "sequence": 0,
    "dropped": 0,
}


@pytest.fixture
def host(tmp_path: Path) -> TapHost:
    return TapHost(tmp_path)


def _row(kind: int, mono_us: int, **values: float) -> list[Any]:
    """Return a row in which every number differs from its neighbours."""
    plain = {name: 10 + place for place, (name, _) in enumerate(wire.COLUMNS[kind])}
    plain |= {"engine": 0, "main": 1, "mono_us": mono_us, "engine_mono_us": mono_us}
    return [values.get(name, plain[name]) for name, _ in wire.COLUMNS[kind]]


def _missing(kind: int, mono_us: int, *known: str) -> list[Any]:
    row = _row(kind, mono_us)
    return [
        value if name in known else wire.MISSING[code]
        for value, (name, code) in zip(row, wire.COLUMNS[kind], strict=True)
    ]


def test_every_column_of_a_step_finds_its_place(host: TapHost) -> None:
    now = host.at()
    header = {**_HEADER, "rows": 1, "wall_us": now.wall_us, "mono_us": now.mono_us}
    ttft = {"engine": [0], "wall_us": [now.wall_us], "ttft_us": [70_000]}
    host.deliver(wire.pack(wire.STEPS, {**header, "ttft": ttft}, [_row(wire.STEPS, now.mono_us)]))
    rows = host.poll(host.steps)
    [step] = rows["engine_step"]
    names = [name for name, _ in wire.COLUMNS[wire.STEPS]]
    sent = dict(zip(names, _row(wire.STEPS, now.mono_us), strict=True))
    told = {name: step[name] for name in sent.keys() & step.keys() - {"engine", "wall_us"}}
    assert told == {name: sent[name] for name in told}
    nullable = {column.name for column in table("engine_step").columns if column.nullable}
    assert nullable - told.keys() == {"outlier"}
    assert [row["ttft_us"] for row in rows["first_token"]] == [70_000]


def test_what_the_tap_calls_missing_is_null(host: TapHost) -> None:
    now = host.at()
    header = {**_HEADER, "rows": 1, "wall_us": now.wall_us, "mono_us": now.mono_us}
    known = ("engine", "main", "engine_mono_us", "outputs")
    host.deliver(
        wire.pack(
            wire.STEPS,
            {**header, "ttft": {"engine": [], "wall_us": [], "ttft_us": []}},
            [_missing(wire.STEPS, now.mono_us, *known)],
        )
    )
    [step] = host.poll(host.steps)["engine_step"]
    unknown = {
        column.name
        for column in table("engine_step").columns
        if column.nullable and column.kind is not ColumnKind.BOOL
    }
    assert {step[name] for name in unknown} == {None}
    gap = _missing(wire.GAPS, now.mono_us, "request", "chunk_index", "mono_us")
    host.deliver(wire.pack(wire.GAPS, header, [gap]))
    [row] = host.poll(host.gaps)["token_gap"]
    assert (row["itl_us"], row["tokens_in_output"]) == (None, None)


def test_every_column_of_a_chunk_finds_its_place(host: TapHost) -> None:
    now = host.at()
    header = {**_HEADER, "rows": 1, "wall_us": now.wall_us, "mono_us": now.mono_us}
    values = {"request": 3, "chunk_index": 1_000, "itl_us": 9_000, "tokens": 4, "body_bytes": 99}
    host.deliver(wire.pack(wire.GAPS, header, [_row(wire.GAPS, now.mono_us, **values)]))
    [row] = host.poll(host.gaps)["token_gap"]
    assert (row["chunk_index"], row["itl_us"], row["tokens_in_output"]) == (1_000, 9_000, 4)
    assert row["wall_us"] == now.wall_us


def test_every_key_of_a_request_is_read() -> None:
    told: dict[str, object] = {name: place for place, name in enumerate(EMPTY, start=1)}
    told |= {"source": "asgi", "id": "cmpl-x", "route": "/v1", "finish": "stop", "aborted": False}
    header = {**_HEADER, "rows": 1, "wall_us": 1, "mono_us": 1, "requests": [told]}
    message = parse_message(wire.pack(wire.REQUESTS, header, ()))
    [request] = message.requests
    assert (message.kind, message.rejects) == (Kind.REQUESTS, 0)
    assert {name: getattr(request, name) for name in EMPTY} == told


def test_a_request_that_only_begins_has_not_ended() -> None:
    begins = {**EMPTY, "source": "asgi", "number": 1, "id": "x", "arrival_mono_us": 5}
    header = {**_HEADER, "rows": 1, "wall_us": 1, "mono_us": 1, "requests": [begins]}
    [request] = parse_message(wire.pack(wire.REQUESTS, header, ())).requests
    assert not request.has_ended
