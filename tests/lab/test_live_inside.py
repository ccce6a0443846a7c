from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Coroutine, Iterator
from types import ModuleType
from typing import Any

import pytest
from vllm_asgi_stand_ins import DONE, Client, scope, serve, streaming, token, usage
from vllm_stand_ins import iteration, make_logger, scheduler, tapped_to_collector
from vllm_wire_reader import GAPS, STEPS

from stallscope_vllm.stat_logger import StallscopeStatLogger

Load = Callable[[str], ModuleType]


@pytest.fixture
def load() -> Iterator[Load]:
    """Loads a module that changes the stat logger, and undoes that."""
    record = StallscopeStatLogger.record
    names: list[str] = []

    def load(name: str) -> ModuleType:
        names.append(f"lab.live.inside.{name}")
        return importlib.import_module(names[-1])

    yield load
    StallscopeStatLogger.record = record  # type: ignore[method-assign] # as it was
    for name in names:
        sys.modules.pop(name, None)


App = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]


def _run(app: App, request: dict[str, Any], client: Client) -> Client:
    asyncio.run(app(request, client.receive, client.send))
    return client


def test_switch_takes_both_taps_out_and_puts_them_back(load: Load) -> None:
    module = load("switched_tap")
    answer = streaming([token(), usage(), DONE])
    with tapped_to_collector() as (tap, collector):
        app = module.SwitchedTap(answer)
        logger = make_logger()
        for position, gap_s in (("off", 0.011), ("on", 0.022), ("off", 0.033)):
            _run(app, scope(module.PATH + position), Client())
            logger.record(scheduler(), iteration([gap_s]))
            assert len(_run(app, scope(), Client()).sent) == 5
        tap.close()
        collector.read()
        assert [row["itl_us"] for row in collector.rows(STEPS)] == [22_000]
        assert len(collector.rows(GAPS)) == 3


def test_hostile_steps_raise_nothing_and_real_ones_come_before_the_tap_gives_up(load: Load) -> None:
    module = load("hostile")
    with tapped_to_collector() as (tap, collector):
        app = module.HostileMiddleware(streaming([]))
        logger = make_logger()
        logger.record(scheduler(), iteration([0.011, 0.011]))
        _run(app, scope(module.START), Client())
        for _ in range(400):
            logger.record(scheduler(), iteration([0.011, 0.011]))
        tap.close()
        collector.read()
        real = [row for row in collector.rows(STEPS) if row["itl_us"] == 11_000]
    assert real
    assert all(row["outputs"] == 2 for row in real)


def test_hostile_requests_raise_nothing_and_the_real_one_is_served(load: Load) -> None:
    module = load("hostile")
    with tapped_to_collector():
        for _ in module.hostile_scopes():
            app = module.HostileMiddleware(streaming([token(), usage(), DONE]))
            _run(app, scope(module.START), Client())
            assert len(serve(app).sent) == 5
