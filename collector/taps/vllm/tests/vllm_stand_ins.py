"""Taps under test, each with a socket folder of its own, and stats objects like vLLM's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from vllm_wire_reader import Collector, socket_folder

from stallscope_vllm import tap as tap_module
from stallscope_vllm.stat_logger import StallscopeStatLogger
from stallscope_vllm.tap import Tap, shared_tap

CONFIG = SimpleNamespace(
    model_config=SimpleNamespace(served_model_name=["served"]),
    parallel_config=SimpleNamespace(_api_process_count=2, _api_process_rank=1),
)


@contextmanager
def tapped(path: Path) -> Iterator[Tap]:
    """Make the process's tap anew, sending to the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STALLSCOPE_TAP_SOCKET", str(path))
        patch.setattr(tap_module, "_shared", [])
        tap = shared_tap()
        try:
            yield tap
        finally:
            tap.close()
            for thread in threading.enumerate():
                if thread.name == "stallscope-tap":
                    thread.join(timeout=5)


@contextmanager
def tapped_to_collector() -> Iterator[tuple[Tap, Collector]]:
    """Make a tap and a collector that listens to it."""
    with socket_folder() as folder:
        collector = Collector(folder / "tap.sock")
        try:
            with tapped(folder / "tap.sock") as tap:
                yield tap, collector
        finally:
            collector.close()


def make_logger(engines: Any = (0,)) -> StallscopeStatLogger:
    return StallscopeStatLogger(vllm_config=CONFIG, engine_indexes=list(engines))


def scheduler(**changes: Any) -> SimpleNamespace:
    """Return SchedulerStats as vLLM 0.32 has it; plain namespaces, so that any field can go."""
    fields = {
        "num_running_reqs": 7,
        "num_waiting_reqs": 3,
        "num_skipped_waiting_reqs": 2,
        "num_kv_fetch_reqs_by_stage": {},
        "step_counter": 0,
        "current_wave": 0,
        "kv_cache_usage": 0.25,
        "iteration_details": None,
        "prefix_cache_stats": SimpleNamespace(reset=False, requests=1, queries=400, hits=256),
        "connector_prefix_cache_stats": None,
        "kv_cache_eviction_events": [],
        "spec_decoding_stats": None,
        "kv_connector_stats": None,
        "waiting_lora_adapters": {},
        "cudagraph_stats": None,
        "perf_stats": None,
    }
    return SimpleNamespace(**{**fields, **changes})


def iteration(gaps: Any = (), **changes: Any) -> SimpleNamespace:
    """Return IterationStats as vLLM 0.32 has it."""
    fields = {
        "iteration_timestamp": time.time(),
        "num_generation_tokens": len(gaps),
        "prompt_token_stats": SimpleNamespace(computed=144, cached_tokens=256, total=400),
        "num_prompt_tokens": 400,
        "num_preempted_reqs": 0,
        "finished_requests": [],
        "max_num_generation_tokens_iter": [],
        "n_params_iter": [],
        "time_to_first_tokens_iter": [],
        "inter_token_latencies_iter": list(gaps),
    }
    return SimpleNamespace(**{**fields, **changes})


def without(stats: SimpleNamespace, *names: str) -> SimpleNamespace:
    for name in names:
        delattr(stats, name)
    return stats
