"""The tap of a process: bounds, restarts, forks, the switch, and that vLLM is not needed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from vllm_asgi_stand_ins import Client, scope, serve, streaming, token
from vllm_stand_ins import iteration, make_logger, scheduler, tapped, tapped_to_collector
from vllm_wire_reader import GAPS, REQUESTS, STEPS, Collector, socket_folder

from stallscope_vllm.queues import MOST_CHUNKS, MOST_STEPS
from stallscope_vllm.stat_logger import StallscopeStatLogger

_ROOT = Path(__file__).resolve().parent.parent


def _run(code: str, **variables: str) -> str:
    """Run code in a Python of its own, in which only the tap is to be found."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={"PYTHONPATH": str(_ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_batches_are_sent_by_the_thread_on_its_own() -> None:
    with tapped_to_collector() as (_, collector):
        make_logger().record(scheduler(), iteration([0.01]))
        collector.wait_for(lambda it: it.rows(STEPS))
        make_logger().record(scheduler(), iteration([0.02]))
        collector.wait_for(lambda it: len(it.rows(STEPS)) == 2)
    headers = [gram.header for gram in collector.datagrams]
    assert [header["sequence"] for header in headers] == [0, 1]
    assert len({header["session"] for header in headers}) == 1
    assert abs(headers[0]["wall_us"] - time.time() * 1e6) < 60e6
    assert headers[0]["mono_us"] <= headers[1]["mono_us"] <= time.monotonic_ns() // 1_000


def test_a_flood_is_cut_off_counted_and_does_not_grow() -> None:
    with socket_folder() as folder, tapped(folder / "nobody.sock") as tap:
        logger = make_logger()
        tracemalloc.start()
        for _ in range(4 * MOST_STEPS):
            logger.record(scheduler(), iteration([0.01] * 16))
        serve(streaming([token()] * 2 * MOST_CHUNKS))
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert tap.queues.refused > 0
    assert grown < 6 * 1024 * 1024


def test_every_record_of_a_flood_arrives_or_is_counted() -> None:
    total = 3_000
    with tapped_to_collector() as (tap, collector):
        logger = make_logger()
        for _ in range(total):
            logger.record(scheduler(), iteration([0.01]))
            collector.read()
        time.sleep(0.3)
        logger.record(scheduler(), iteration([0.01]))
        tap.close()
        collector.read()
        arrived = len(collector.rows(STEPS))
        dropped = collector.datagrams[-1].header["dropped"]
    assert arrived + dropped == total + 1
    assert arrived > MOST_STEPS


def test_without_a_collector_the_tap_gives_up_and_comes_back() -> None:
    with socket_folder() as folder, tapped(folder / "tap.sock") as tap:
        logger = make_logger()
        _repeat(
            lambda: logger.record(scheduler(), iteration([0.01])),
            lambda: not tap.queues.is_accepting,
        )
        refused = tap.queues.refused
        logger.record(scheduler(), iteration([0.01]))
        serve(streaming([token()]))
        assert tap.queues.refused == refused + 1  # a request that begins meanwhile is not followed
        collector = Collector(folder / "tap.sock")
        _repeat(lambda: None, lambda: tap.queues.is_accepting)
        logger.record(scheduler(), iteration([0.03]))
        collector.wait_for(lambda it: 30_000 in {row["itl_us"] for row in it.rows(STEPS)})
        collector.close()
    assert collector.datagrams[-1].header["dropped"] > 0


def _repeat(action: Callable[[], None], is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_done():
        assert time.monotonic() < deadline
        action()
        time.sleep(0.05)


def test_requests_are_announced_to_a_collector_that_was_restarted() -> None:
    with socket_folder() as folder, tapped(folder / "tap.sock"):
        first = Collector(folder / "tap.sock")
        collectors = [first]

        async def app(_: Any, __: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
            await send({"type": "http.response.body", "body": token(), "more_body": True})
            first.wait_for(lambda it: it.requests)
            first.close()
            collectors.append(Collector(folder / "tap.sock"))
            await send({"type": "http.response.body", "body": token(), "more_body": True})
            collectors[1].wait_for(lambda it: it.rows(GAPS))
            await send({"type": "http.response.body", "body": token(), "more_body": True})
            collectors[1].wait_for(lambda it: it.requests)

        serve(app)
        collectors[1].close()
    (announced,) = first.requests
    again = collectors[1].requests[0]
    assert again == announced
    assert again["end_mono_us"] is None


_EVENTS = [(b"content-type", b"text/event-stream")]


def test_requests_stand_before_their_chunks() -> None:
    with tapped_to_collector() as (tap, collector):
        serve(streaming([token()]))
        tap.close()
        collector.read()
    assert [gram.kind for gram in collector.datagrams] == [REQUESTS, GAPS]


def test_switched_off_there_is_no_thread_and_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STALLSCOPE_TAP", "off")
    with tapped_to_collector() as (tap, collector):
        make_logger().record(scheduler(), iteration([0.01]))
        client = serve(streaming([token()]))
        time.sleep(0.3)
        collector.read()
        assert "stallscope-tap" not in {thread.name for thread in threading.enumerate()}
        assert not tap.queues.is_accepting
    assert collector.raw == []
    assert len(client.sent) == 3


def test_one_line_says_that_it_runs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="vllm.stallscope_vllm")
    with tapped_to_collector() as (_, collector):
        make_logger([0, 1])
        for _ in range(3):
            make_logger().record(scheduler(), iteration([0.01]))
        collector.wait_for(lambda it: len(it.rows(STEPS)) == 3)
    assert len(caplog.records) == 1
    assert "sends timings to" in caplog.text


_FORK = """
import os, sys, time
from types import SimpleNamespace
from stallscope_vllm.stat_logger import StallscopeStatLogger
logger = StallscopeStatLogger(None, 0)
def step(gap):
    logger.record(None, SimpleNamespace(inter_token_latencies_iter=[gap]))
step(0.001)
time.sleep(0.3)
step(0.002)
child = os.fork()
if child == 0:
    step(0.003)
    time.sleep(0.4)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
step(0.004)
time.sleep(0.3)
"""


def test_a_forked_child_is_a_session_of_its_own() -> None:
    with socket_folder() as folder:
        collector = Collector(folder / "tap.sock")
        # Python 3.12 warns of any fork beside threads; that is what is tried here.
        code = f"import warnings; warnings.simplefilter('ignore', DeprecationWarning){_FORK}"
        _run(code, STALLSCOPE_TAP_SOCKET=str(folder / "tap.sock"))
        collector.read()
        collector.close()
    gaps: dict[str, list[int]] = {}
    pids = {}
    for gram in collector.datagrams:
        gaps.setdefault(gram.header["session"], []).extend(row["itl_us"] for row in gram.rows)
        pids[gram.header["session"]] = gram.header["pid"]
    assert sorted(gaps.values()) == [[1_000, 2_000, 4_000], [3_000]]
    assert len(set(pids.values())) == 2


def test_the_end_of_the_process_sends_what_is_queued() -> None:
    code = """
from types import SimpleNamespace
from stallscope_vllm.stat_logger import StallscopeStatLogger
logger = StallscopeStatLogger(None, 0)
for _ in range(5):
    logger.record(None, SimpleNamespace(inter_token_latencies_iter=[0.001]))
"""
    with socket_folder() as folder:
        collector = Collector(folder / "tap.sock")
        _run(code, STALLSCOPE_TAP_SOCKET=str(folder / "tap.sock"))
        collector.read()
        collector.close()
    assert len(collector.rows(STEPS)) == 5


_VLLM = """
import abc, sys, types
loggers = types.ModuleType("vllm.v1.metrics.loggers")
class StatLoggerBase(abc.ABC):
    @abc.abstractmethod
    def __init__(self, vllm_config, engine_index=0): ...
    @abc.abstractmethod
    def record(self, scheduler_stats, iteration_stats, mm_cache_stats=None, engine_idx=0): ...
    @abc.abstractmethod
    def of_a_later_version(self): ...
class AggregateStatLoggerBase(StatLoggerBase): ...
loggers.StatLoggerBase = StatLoggerBase
if {aggregate}:
    loggers.AggregateStatLoggerBase = AggregateStatLoggerBase
for name in ("vllm", "vllm.v1", "vllm.v1.metrics"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["vllm.v1.metrics.loggers"] = loggers
sys.modules["vllm"].__version__ = "0.99"
from stallscope_vllm.stat_logger import StallscopeStatLogger
logger = StallscopeStatLogger({arguments})
print(*(base.__name__ for base in StallscopeStatLogger.__mro__[1:]))
"""


@pytest.mark.parametrize(
    ("aggregate", "arguments", "bases"),
    [
        (True, "vllm_config=None, engine_indexes=[0, 1]", "AggregateStatLoggerBase StatLoggerBase"),
        (False, "None, 1", "StatLoggerBase"),
    ],
    ids=["one for all engines", "one per engine"],
)
def test_the_plugin_derives_from_what_vllm_offers_and_starts(
    *, aggregate: bool, arguments: str, bases: str
) -> None:
    said = _run(
        _VLLM.format(aggregate=aggregate, arguments=arguments), STALLSCOPE_TAP_SOCKET="/nowhere"
    )
    assert said.split()[:-2] == bases.split()


@pytest.mark.parametrize(
    "config", [None, 7, object(), {"model_config": 1}], ids=["none", "number", "object", "table"]
)
def test_odd_configurations_do_not_keep_the_engine_from_starting(config: Any) -> None:
    with tapped_to_collector() as (tap, collector):
        StallscopeStatLogger(config, "x", other=object()).record(None, iteration([0.01]))
        tap.close()
        collector.read()
        (gram,) = collector.datagrams
    assert (gram.header["server"], gram.header["model"], gram.rows[0]["engine"]) == (None, None, 0)


def test_no_thread_to_be_had_is_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with tapped_to_collector() as (tap, _):
        monkeypatch.setattr(threading.Thread, "start", refuse)
        logger = make_logger()
        for _ in range(100):
            logger.record(scheduler(), iteration([0.01]))
        assert len(serve(streaming([token()])).sent) == 3
        assert not tap.queues.is_accepting
        monkeypatch.undo()


def test_cost_in_line_is_counted_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    with tapped_to_collector() as (tap, collector):
        logger = make_logger()
        for _ in range(200):
            logger.record(scheduler(), iteration([0.01] * 16))
        serve(streaming([token()] * 200), scope(), Client())
        tap.close()
        collector.read()
    costs = collector.datagrams[-1].header["inline_us"]
    with capsys.disabled():
        print(f"\nin line, us [p50, p99, max, count]: {costs}")  # noqa: T201 - it is the report
    assert costs["record"][3] == 200
    assert costs["send"][3] == 202  # start and the empty last message, too
    for p50, p99, most, _ in costs.values():
        assert 0 < p50 <= p99 <= most
