"""What a stat logger is told becomes rows: every version's shape, outliers, transfers, requests."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from vllm_stand_ins import iteration, make_logger, scheduler, tapped_to_collector, without
from vllm_wire_reader import STEPS

from stallscope_vllm.stat_logger import StallscopeStatLogger

Record = Callable[[StallscopeStatLogger, Any, Any, int], None]


def _named(logger: StallscopeStatLogger, first: Any, second: Any, engine: int) -> None:
    logger.record(
        engine_idx=engine, scheduler_stats=first, iteration_stats=second, mm_cache_stats=None
    )


def _positions_0_10_2(logger: StallscopeStatLogger, first: Any, second: Any, engine: int) -> None:
    logger.record(first, second, engine)


def _positions_0_11_2(logger: StallscopeStatLogger, first: Any, second: Any, engine: int) -> None:
    logger.record(first, second, None, engine)


def _before_0_16(stats: SimpleNamespace) -> SimpleNamespace:
    return without(stats, "prompt_token_stats")


def _old_name(stats: SimpleNamespace) -> SimpleNamespace:
    stats.time_per_output_tokens_iter = stats.inter_token_latencies_iter
    return _before_0_16(without(stats, "inter_token_latencies_iter"))


_NEW_IN_SCHEDULER = (
    "num_skipped_waiting_reqs",
    "iteration_details",
    "spec_decoding_stats",
)
_OLD = {"waiting": 3, "prefill_tokens": 400}
_NEW = {"waiting": 5, "prefill_tokens": 144}


@pytest.mark.parametrize(
    ("record", "old_scheduler", "change", "expected"),
    [
        (_positions_0_10_2, _NEW_IN_SCHEDULER, _old_name, _OLD),
        (_positions_0_10_2, _NEW_IN_SCHEDULER, _before_0_16, _OLD),
        (_positions_0_11_2, _NEW_IN_SCHEDULER, _before_0_16, _OLD),
        (_named, _NEW_IN_SCHEDULER[:1], without, {"waiting": 3, "prefill_tokens": 144}),
        (_named, (), without, _NEW),
    ],
    ids=["0.10.1", "0.10.2", "0.11.2", "0.16", "0.20 to 0.33"],
)
def test_every_version_gives_the_same_row(
    record: Record,
    old_scheduler: tuple[str, ...],
    change: Callable[[SimpleNamespace], SimpleNamespace],
    expected: dict[str, int],
) -> None:
    with tapped_to_collector() as (tap, collector):
        logger = make_logger()
        stats = change(iteration([0.0165] * 5, num_preempted_reqs=1))
        record(logger, without(scheduler(), *old_scheduler), stats, 3)
        tap.close()
        collector.read()
        (row,) = collector.rows(STEPS)
        (header,) = [gram.header for gram in collector.datagrams]
    assert {name: row[name] for name in expected} == expected
    fixed = {
        "engine": 3,
        "main": 1,
        "wall_us": round(stats.iteration_timestamp * 1e6),
        "step_us": None,
        "itl_us": 16_500,
        "outputs": 5,
        "generation_tokens": 5,
        "prefill_requests": 0,
        "running": 7,
        "preempted": 1,
        "kv_usage_ratio": 0.25,
        "prefix_queries": 400,
        "prefix_hits": 256,
        "external_queries": None,
        "load_bytes": None,
        "load_jobs": None,
        "finished": 0,
        "spec_drafts": None,
    }
    assert {name: row[name] for name in fixed} == fixed
    assert (header["server"], header["model"], header["dropped"]) == (1, "served", 0)
    assert header["inline_us"]["record"][3] == 1


def test_the_step_is_placed_on_the_monotonic_clock_where_its_outputs_were_received() -> None:
    with tapped_to_collector() as (tap, collector):
        logger = make_logger()
        logger.record(scheduler(), iteration([0.01], iteration_timestamp=time.time() - 0.5))
        before_us = time.monotonic_ns() // 1_000
        logger.record(scheduler(), iteration([0.01], iteration_timestamp=time.time() - 0.25))
        tap.close()
        collector.read()
        first, second = collector.rows(STEPS)
    assert before_us - 260_000 < second["engine_mono_us"] < before_us - 200_000
    assert second["step_us"] == second["engine_mono_us"] - first["engine_mono_us"]


def test_a_gap_of_its_own_gets_a_row_of_its_own() -> None:
    gaps = [0.0165] * 14 + [2.5] + [0.0165000001] * 2 + [-1.0, float("nan"), None, "x"]
    with tapped_to_collector() as (tap, collector):
        make_logger().record(scheduler(), iteration(gaps))
        tap.close()
        collector.read()
        main, outlier = collector.rows(STEPS)
    assert (main["main"], main["itl_us"], main["outputs"]) == (1, 16_500, 16)
    assert (outlier["main"], outlier["itl_us"], outlier["outputs"]) == (0, 2_500_000, 1)
    known = {name for name, value in outlier.items() if value is not None}
    assert known == {"engine", "main", "wall_us", "engine_mono_us", "itl_us", "outputs"}
    assert outlier["wall_us"] == main["wall_us"]


def test_a_step_without_outputs_and_one_without_scheduler_stats() -> None:
    with tapped_to_collector() as (tap, collector):
        logger = make_logger()
        logger.record(scheduler(), None)  # a part of a long prefill
        logger.record(None, iteration([0.01] * 2))  # another API server was given the numbers
        logger.record(None, None)
        tap.close()
        collector.read()
        prefill, decode = collector.rows(STEPS)
    assert (prefill["outputs"], prefill["generation_tokens"], prefill["itl_us"]) == (0, 0, None)
    assert (prefill["prefill_tokens"], prefill["preempted"], prefill["running"]) == (None, None, 7)
    assert abs(prefill["wall_us"] - time.time() * 1e6) < 60e6
    assert (decode["outputs"], decode["running"], decode["kv_usage_ratio"]) == (2, None, None)


def test_what_vllm_details_of_a_step_wins() -> None:
    details = SimpleNamespace(num_ctx_requests=2, num_ctx_tokens=512)
    speculation = SimpleNamespace(num_drafts=4, num_accepted_tokens=9)
    external = SimpleNamespace(queries=128, hits=64)
    stats = scheduler(
        iteration_details=details,
        spec_decoding_stats=speculation,
        connector_prefix_cache_stats=external,
    )
    with tapped_to_collector() as (tap, collector):
        make_logger().record(stats, iteration([0.01]))
        tap.close()
        collector.read()
        (row,) = collector.rows(STEPS)
    assert (row["prefill_tokens"], row["prefill_requests"]) == (512, 2)
    assert (row["spec_drafts"], row["spec_accepted_tokens"]) == (4, 9)
    assert (row["external_queries"], row["external_hits"]) == (128, 64)


def test_first_tokens_go_into_the_header() -> None:
    stats = iteration([], time_to_first_tokens_iter=[0.25, -0.1, 1.5], num_generation_tokens=3)
    with tapped_to_collector() as (tap, collector):
        make_logger().record(scheduler(), stats, None, 2)
        tap.close()
        collector.read()
        (gram,) = collector.datagrams
    wall_us = round(stats.iteration_timestamp * 1e6)
    # A negative one came of a wall clock that stepped back: no time to first token.
    assert gram.header["ttft"] == {
        "engine": [2, 2],
        "wall_us": [wall_us, wall_us],
        "ttft_us": [250_000, 1_500_000],
    }
    assert (gram.rows[0]["itl_us"], gram.rows[0]["prefill_requests"]) == (None, 3)


class _Reason(enum.IntEnum):
    STOP = 0
    ABORT = 2


def _finished(**changes: Any) -> SimpleNamespace:
    fields = {
        "finish_reason": _Reason.STOP,
        "request_id": "cmpl-7-0",
        "e2e_latency": 2.0,
        "num_prompt_tokens": 400,
        "num_generation_tokens": 20,
        "num_preemptions": 1,
        "queued_time": 0.25,
        "prefill_time": 0.5,
        "decode_time": 1.0,
        "inference_time": 1.5,
        "num_cached_tokens": 256,
    }
    return SimpleNamespace(**{**fields, **changes})


def test_a_finished_request_is_told_with_all_it_has() -> None:
    stats = iteration([0.01], finished_requests=[_finished()])
    with tapped_to_collector() as (tap, collector):
        make_logger().record(scheduler(), stats, engine_idx=1)
        tap.close()
        collector.read()
        (row,) = collector.rows(STEPS)
        (request,) = collector.requests
    assert row["finished"] == 1
    assert request["end_mono_us"] == row["engine_mono_us"]
    assert {name: value for name, value in request.items() if value is not None} == {
        "source": "stats",
        "id": "cmpl-7-0",
        "engine": 1,
        "finish": "stop",
        "aborted": False,
        "arrival_wall_us": row["wall_us"] - 2_000_000,
        "end_mono_us": row["engine_mono_us"],
        "queue_us": 250_000,
        "prefill_us": 500_000,
        "decode_us": 1_000_000,
        "inference_us": 1_500_000,
        "e2e_us": 2_000_000,
        "prompt_tokens": 400,
        "output_tokens": 20,
        "cached_tokens": 256,
        "preemptions": 1,
    }


def test_a_request_that_was_never_scheduled_has_no_times() -> None:
    """vLLM subtracts stamps that are still 0.0: minus uptime is no duration."""
    never = _finished(
        finish_reason=_Reason.ABORT, queued_time=-8_123.5, prefill_time=0.0, inference_time=-1.0
    )
    old = without(_finished(), "request_id", "num_cached_tokens", "num_preemptions")
    with tapped_to_collector() as (tap, collector):
        make_logger().record(scheduler(), iteration(finished_requests=[never, old]))
        tap.close()
        collector.read()
        first, second = collector.requests
    assert (first["finish"], first["aborted"]) == ("abort", True)
    assert (first["queue_us"], first["inference_us"], first["prefill_us"]) == (None, None, 0)
    assert (second["id"], second["cached_tokens"], second["preemptions"]) == (None, None, None)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({"engine_index": 4}, 4), ({"engine_indexes": [5, 6]}, 5), ({}, 0)],
    ids=["one object per engine", "one for all", "neither"],
)
def test_an_engine_that_is_not_named_is_that_of_the_object(
    arguments: dict[str, Any], expected: int
) -> None:
    with tapped_to_collector() as (tap, collector):
        StallscopeStatLogger(None, **arguments).record(scheduler(), iteration([0.01]))
        tap.close()
        collector.read()
        (row,) = collector.rows(STEPS)
    assert row["engine"] == expected
