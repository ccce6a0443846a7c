"""Whatever vLLM hands over, `record` raises nothing and the engine goes on."""

from __future__ import annotations

import asyncio
import math
import random
from types import SimpleNamespace
from typing import Any

import pytest
from vllm_stand_ins import iteration, make_logger, scheduler, tapped_to_collector
from vllm_wire_reader import STEPS

from stallscope_vllm.tap import MOST_ERRORS

_ROUNDS = 400


class _Hostile:
    """Raises whatever is asked of it."""

    def __init__(self, error: BaseException) -> None:
        object.__setattr__(self, "_error", error)

    def __getattribute__(self, name: str) -> Any:
        raise object.__getattribute__(self, "_error")


class _HostileList(list[Any]):
    def __iter__(self) -> Any:
        raise OSError("no")

    def __len__(self) -> int:
        return 2**40


_ODD: tuple[Any, ...] = (
    None, True, -1, 2**80, 10**400, 0.1, math.nan, math.inf, -math.inf, "7", b"7", [], [None],
    ["a", object()], [math.nan] * 3, [2**70], {}, {"data": 5}, {"data": {1: 2}}, {(): []}, (),
    object(), _HostileList([1.0]), {"CPU_to_GPU": [{}]}, {"GPU_to_CPU": ["x"]},
    {"data": {"vllm:kv_offload_load_bytes": 7}}, range(5), SimpleNamespace(),
)  # fmt: skip


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        AttributeError("x"),
        RecursionError(),
        MemoryError(),
        asyncio.CancelledError(),
        GeneratorExit(),
        BaseException("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_nothing_that_an_object_raises_leaves_record(error: BaseException) -> None:
    with tapped_to_collector() as (tap, collector):
        logger = make_logger()
        logger.record(_Hostile(error), iteration([0.01]))
        logger.record(scheduler(), _Hostile(error))
        logger.record(scheduler(kv_connector_stats=_Hostile(error)), iteration([0.01]))
        logger.record(scheduler(), iteration([0.02]))
        tap.close()
        collector.read()
        assert collector.rows(STEPS)[-1]["itl_us"] == 20_000


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=["SIGINT", "exit"])
def test_a_signal_to_the_process_goes_through(error: BaseException) -> None:
    with tapped_to_collector(), pytest.raises(type(error)):
        make_logger().record(_Hostile(error), None)


def test_odd_values_in_any_field_do_no_harm() -> None:
    """Each row that arrives decodes, and its neighbours with sound values are all there."""
    dice = random.Random(7)
    with tapped_to_collector() as (tap, collector):
        for _ in range(_ROUNDS):
            first, second = scheduler(), iteration([0.01])
            target = dice.choice((first, second))
            name = dice.choice(sorted(vars(target)))
            setattr(target, name, dice.choice(_ODD))
            make_logger().record(first, second, dice.choice(_ODD))
        tap.close()
        collector.read()
        rows = collector.rows(STEPS)
        lost = collector.datagrams[-1].header["dropped"]
    main = [row for row in rows if row["main"]]
    assert len(main) + lost == _ROUNDS
    assert len(main) > _ROUNDS * 0.9
    assert sum(row["itl_us"] == 10_000 for row in main) > _ROUNDS * 0.8


def test_a_list_beyond_all_measure_is_cut() -> None:
    gaps = [0.01] * 10_000 + [index / 1e3 for index in range(90_000)]
    with tapped_to_collector() as (tap, collector):
        make_logger().record(scheduler(), iteration(gaps))
        tap.close()
        collector.read()
        rows = collector.rows(STEPS)
    assert (rows[0]["itl_us"], len(rows)) == (10_000, 65)  # the main row and 64 outliers


def test_too_many_errors_end_the_tap_and_only_the_tap(caplog: pytest.LogCaptureFixture) -> None:
    with tapped_to_collector() as (tap, collector):
        logger = make_logger()
        for _ in range(MOST_ERRORS):
            logger.record(_Hostile(ValueError("x")), None)
        collector.wait_for(lambda _: not tap.queues.is_accepting)
        logger.record(scheduler(), iteration([0.01]))
        collector.wait_for(lambda _: "switched itself off" in caplog.text)
        collector.read()
        assert collector.rows(STEPS) == []


def test_an_object_that_is_used_again_is_noticed() -> None:
    """What is queued would have changed meanwhile: better no rows than wrong ones."""
    again = iteration([0.01])
    with tapped_to_collector() as (tap, collector):
        logger = make_logger()
        for _ in range(3):
            logger.record(scheduler(), again)
        tap.close()
        collector.read()
        assert len(collector.rows(STEPS)) == 1
        assert collector.datagrams[-1].header["dropped"] == 2
