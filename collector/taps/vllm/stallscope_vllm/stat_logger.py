"""The stat-logger plugin: vLLM calls ``record`` once per engine step, inside its output handler.

One exception there ends the handler and with it all serving, while the process lives on; a pause
there stalls every stream. So nothing leaves ``record`` but a signal, and it only queues what it is
given: both objects are made anew for each step (vllm v1/engine/async_llm.py, 0.10.2 to 0.33), and
reading them in line costs twice as much, cold caches being most of it.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

from stallscope_vllm.tap import shared_tap
from stallscope_vllm.transfers import read_transfers

_MOST_NAME = 256


def _find_base() -> Any:
    """Return the class that vLLM wants its plugins to derive from; one object a process if it can.

    AggregateStatLoggerBase gets one object for all engines, StatLoggerBase one per engine.
    """
    try:
        loggers = importlib.import_module("vllm.v1.metrics.loggers")
    except Exception:  # noqa: BLE001 - without vLLM, or with one that cannot be imported here
        return object
    plain = getattr(loggers, "StatLoggerBase", object)
    return getattr(loggers, "AggregateStatLoggerBase", plain)


_Base: Any = _find_base()


class StallscopeStatLogger(_Base):  # type: ignore[misc] # the base is whatever vLLM offers
    """Hands each step's numbers to the tap.

    Args:
        vllm_config: For the served name and the index of this API server.
        arguments: The engine's index, or the list of them.
    """

    def __init__(self, vllm_config: Any = None, *arguments: Any, **named: Any) -> None:
        self._tap = shared_tap()
        self._engine = 0
        try:
            self._engine = _first_index((*arguments, *named.values()))
            self._tap.learn(**_facts(vllm_config))
            self._tap.start()
        except Exception:  # noqa: BLE001 - raised here it would keep the engine from starting
            self._tap.note_error()

    def record(
        self, scheduler_stats: Any = None, iteration_stats: Any = None, *rest: Any, **named: Any
    ) -> None:
        """Queue one step; never raises, never waits.

        Args:
            scheduler_stats: vLLM's SchedulerStats, or None.
            iteration_stats: vLLM's IterationStats, or None.
            rest: Their order changed: engine_idx in 0.10.2, mm_cache_stats before it since 0.11.2.
            named: The same by name.
        """
        begin_ns = time.monotonic_ns()
        tap = self._tap
        try:
            engine = named["engine_idx"] if "engine_idx" in named else self._find_engine(rest)
            transfers = getattr(scheduler_stats, "kv_connector_stats", None)
            if transfers is not None:  # copied: vLLM's own logger adds later steps into it
                transfers = read_transfers(transfers)
            tap.queues.offer_step(
                scheduler_stats, iteration_stats, transfers, engine, time.time_ns(), begin_ns
            )
        except (KeyboardInterrupt, SystemExit):
            raise  # a signal to the process that arrived just here
        except BaseException:  # noqa: BLE001 - CancelledError too: none was meant for us
            tap.note_error()
        tap.record_cost.add(time.monotonic_ns() - begin_ns)

    def log_engine_initialized(self) -> None:
        """Do nothing: the header of each datagram says what there is to say."""

    def log(self) -> None:
        """Do nothing; vLLM calls it every ten seconds."""

    def record_sleep_state(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    def _find_engine(self, rest: tuple[Any, ...]) -> int:
        return next((one for one in rest if type(one) is int), self._engine)


# A method that a later vLLM declares abstract must not keep the engine from starting.
StallscopeStatLogger.__abstractmethods__ = frozenset()


def _first_index(values: tuple[Any, ...]) -> int:
    """Return the engine's index: an int, or the first of a list."""
    for value in values:
        one = value[0] if isinstance(value, (list, tuple)) and value else value
        if type(one) is int:
            return one
    return 0


def _facts(vllm_config: Any) -> dict[str, Any]:
    name = getattr(getattr(vllm_config, "model_config", None), "served_model_name", None)
    if isinstance(name, (list, tuple)) and name:
        name = name[0]
    parallel = getattr(vllm_config, "parallel_config", None)
    server = getattr(parallel, "_api_process_rank", None)
    is_alone = getattr(parallel, "_api_process_count", 1) == 1
    return {
        "model": name[:_MOST_NAME] if isinstance(name, str) else None,
        "server": server if isinstance(server, int) and server >= 0 and not is_alone else None,
    }
