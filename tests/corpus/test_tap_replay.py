"""Whole recordings of vLLM's stat logger and middleware, sent again as datagrams of the taps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from lab.synthetic.tap_datagrams import TapSender
from tests.collector.tap_replay import (
    gaps_of,
    micros,
    quantile,
    read_exchanges,
    read_records,
    replay_chunks,
    replay_steps,
)
from tests.collector.tap_stand_ins import Rows, TapHost, known_engine

_PROBE = "own-captures/itl_probe"
_MIDDLEWARE = "own-captures/asgi_middleware"
_MS = 1_000


@pytest.fixture
def host(tmp_path: Path) -> TapHost:
    made = TapHost(tmp_path)
    made.engines[:] = [known_engine(11, rank="0"), known_engine(12, rank="1")]
    return made


def _steps(host: TapHost, corpus: Path, name: str) -> Rows:
    return replay_steps(host, read_records(corpus / _PROBE / name), TapSender())


def _chunks(host: TapHost, corpus: Path, name: str) -> Rows:
    host.engines[:] = [known_engine(11)]
    return replay_chunks(host, read_exchanges(corpus / _MIDDLEWARE / name), TapSender())


def _outputs_by_step(rows: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the rows of each step that had several outputs."""
    told = [row for row in rows if row["itl_us"] is not None]
    steps = [list(own) for _, own in groupby(told, key=lambda row: (row["engine"], row["mono_us"]))]
    return [own for own in steps if sum(row["outputs"] for row in own) > 1]


def _quantiles_ms(gaps: Sequence[int]) -> tuple[float, float, float]:
    return (
        round(quantile(gaps, 0.5) / _MS, 1),
        round(quantile(gaps, 0.99) / _MS, 1),
        round(gaps[-1] / _MS),
    )


def test_the_plain_run_has_one_gap_a_step(host: TapHost, corpus: Path) -> None:
    rows = _steps(host, corpus, "itl_probe_run1.jsonl")
    steps = rows["engine_step"]
    gaps = gaps_of(steps)
    assert (len(steps), len(gaps)) == (453, 6_159)
    several = _outputs_by_step(steps)
    assert len(several) == 385
    assert all(len(own) == 1 for own in several)
    assert _quantiles_ms(gaps) == (11.8, 80.4, 244)
    assert len(rows["request"]) == len(rows["first_token"]) == 49
    assert sum(row["prompt_tokens"] for row in rows["request"]) == 14_464
    assert sum(row["output_tokens"] for row in rows["request"]) == 6_208


def test_a_second_run_with_step_details(host: TapHost, corpus: Path) -> None:
    steps = _steps(host, corpus, "itl_probe_run2_iterdetails.jsonl")["engine_step"]
    assert len(gaps_of(steps)) == 6_096


@pytest.mark.parametrize(
    ("name", "records", "unseen", "engines"),
    [
        ("itl_probe_run3_api_server_count2.jsonl", 263, 130, {11}),
        ("itl_probe_dp2.jsonl", 578, 273, {11, 12}),
    ],
)
def test_two_api_servers_and_two_ranks(
    host: TapHost, corpus: Path, name: str, records: int, unseen: int, engines: set[int]
) -> None:
    rows = _steps(host, corpus, name)
    steps = [row for row in rows["engine_step"] if not row["outlier"]]
    assert len(steps) == records
    assert sum(row["running"] is None for row in steps) == unseen
    assert len(gaps_of(steps)) == 1_512
    assert {row["engine"] for row in steps} == engines
    assert len(rows["request"]) == 24


def test_long_prompts_during_decode(host: TapHost, corpus: Path) -> None:
    rows = _steps(host, corpus, "itl_probe_prefill_interference.jsonl")
    steps = [row for row in rows["engine_step"] if row["itl_us"] is not None]
    assert len(gaps_of(steps)) == 4_095
    decode = sorted(row["itl_us"] for row in steps if row["prefill_tokens"] == 0)
    prefill = sorted(row["itl_us"] for row in steps if row["prefill_tokens"] > 0)
    assert (len(decode), len(prefill)) == (508, 7)
    assert _quantiles_ms(decode)[:2] == (5.6, 15.3)
    assert round(prefill[len(prefill) // 2] / _MS) == 55
    assert round(prefill[-1] / _MS) == 90


def test_preemption(host: TapHost, corpus: Path) -> None:
    steps = _steps(host, corpus, "itl_probe_preemption.jsonl")["engine_step"]
    gaps = gaps_of(steps)
    assert len(gaps) == 8_990
    assert round(gaps[-1] / _MS) == 4_458
    assert sum(row["preempted"] or 0 for row in steps) == 5
    several = _outputs_by_step(steps)
    assert len(several) == 1_260
    assert sum(len(own) > 1 for own in several) == 3
    assert all(row["outlier"] is False for own in several for row in own[:1])


@pytest.mark.parametrize(
    ("name", "requests", "chunks", "longest_ms"),
    [
        ("asgi_middleware_chunks.jsonl", 24, 1_584, None),
        ("asgi_middleware_preemption.jsonl", 10, 8_616, 4_457),
        ("asgi_middleware_prefill_interference.jsonl", 15, 4_140, None),
    ],
)
def test_chunks_of_the_middleware(
    host: TapHost, corpus: Path, name: str, requests: int, chunks: int, longest_ms: int | None
) -> None:
    rows = _chunks(host, corpus, name)
    gaps = rows["token_gap"]
    assert (len(rows["request"]), len(gaps)) == (requests, chunks)
    assert sum(row["itl_us"] is None for row in gaps) == requests
    if longest_ms is not None:
        assert max(row["itl_us"] or 0 for row in gaps) // _MS == longest_ms
    told = {row["request"]: row for row in rows["request"]}
    assert sum(row["chunks"] for row in told.values()) == chunks
    first = [row for row in gaps if row["chunk_index"] == 0]
    assert {row["request"] for row in first} == told.keys()


def test_a_chunk_leaves_the_server_soon_after_its_step(host: TapHost, corpus: Path) -> None:
    """Both taps of one run, joined by request and on one clock."""
    host.engines[:] = [known_engine(11)]
    sender = TapSender()
    records = read_records(corpus / _PROBE / "itl_probe_run7.jsonl")
    exchanges = read_exchanges(corpus / _MIDDLEWARE / "asgi_middleware_chunks.jsonl")
    chunks = replay_chunks(host, exchanges, sender)
    offset_us = host.clock.wall_offset_us
    steps = replay_steps(host, records, sender)
    ended = {row["request"]: row for row in steps["request"]}
    assert ended.keys() == {row["request"] for row in chunks["request"]}
    last: dict[int, int] = {}
    for row in chunks["token_gap"]:
        # two more chunks follow the last token: the usage block and [DONE]
        if row["chunk_index"] == 63:
            last[row["request"]] = row["wall_us"] - offset_us
    lags = sorted(last[request] - row["mono_us"] for request, row in ended.items())
    assert lags[0] > -micros(0.001)
    assert lags[len(lags) // 2] < micros(0.005)
