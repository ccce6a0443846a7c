"""KV transfers of a step: every shape that the offloading connector has had, and no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from vllm_stand_ins import iteration, make_logger, scheduler, tapped_to_collector
from vllm_wire_reader import STEPS

from stallscope_vllm.transfers import read_transfers

_NAMED: dict[str, dict[str, Any]] = {
    "types": {"vllm:kv_offload_load_bytes": "counter"},
    "data": {
        "vllm:kv_offload_load_bytes": {(): 3_000_000},
        "vllm:kv_offload_load_time": {(): 0.002},
        "vllm:kv_offload_load_size": {(): [1_000_000, 2_000_000]},
        "vllm:kv_offload_store_bytes": {(): 500_000},
        "vllm:kv_offload_store_time": {(): 0.0005},
        "vllm:kv_offload_store_size": {(): [500_000]},
    },
}
_SUMS = (3_000_000, 0.002, 500_000, 0.0005, 2, 1)
_LOADS = [{"op_size": 1_000_000, "op_time": 0.0015}, {"op_size": 2_000_000, "op_time": 0.0005}]
_STORES = [SimpleNamespace(op_size=500_000, op_time=0.0005)]


@pytest.mark.parametrize(
    "stats",
    [
        {"CPU_to_GPU": _LOADS, "GPU_to_CPU": _STORES},
        {"xfer:CPU_to_GPU": _LOADS, "xfer:GPU_to_CPU": _STORES, "counter:stores_skipped": 3},
        _NAMED,
        {"NixlConnector": {"transfer_duration": [1.0]}, "OffloadingConnector": _NAMED},
    ],
    ids=["0.11.2", "prefixed", "0.24 to 0.33", "several connectors"],
)
def test_known_shapes_are_summed(stats: dict[str, Any]) -> None:
    assert read_transfers(stats) == pytest.approx(_SUMS)


def test_a_direction_without_jobs_is_zero_where_the_other_is_told() -> None:
    only_stores = {
        "types": {},
        "data": {name: value for name, value in _NAMED["data"].items() if "store" in name},
    }
    assert read_transfers(only_stores) == (0, 0, 500_000, 0.0005, 0, 1)
    assert read_transfers({"CPU_to_GPU": _LOADS}) == pytest.approx((3_000_000, 0.002, 0, 0, 2, 0))


@pytest.mark.parametrize(
    "stats",
    [
        None,
        {},
        [],
        {"transfer_duration": [0.1], "bytes_transferred": [1_000]},
        {"types": {}, "data": {"vllm:kv_offload_lookup_sync_delay_seconds": {(): [0.1]}}},
        {"types": {}, "data": {"vllm:renamed_load_bytes": {(): 5}}},
    ],
    ids=["none", "empty", "list", "nixl", "only lookups", "unknown names"],
)
def test_unknown_shapes_are_missing_not_zero(stats: Any) -> None:
    assert read_transfers(stats) is None


def test_load_and_store_reach_their_own_columns() -> None:
    with tapped_to_collector() as (tap, collector):
        make_logger().record(scheduler(kv_connector_stats=_NAMED), iteration([0.01]))
        tap.close()
        collector.read()
        (row,) = collector.rows(STEPS)
    assert (row["load_bytes"], row["load_time_us"], row["load_jobs"]) == (3_000_000, 2_000, 2)
    assert (row["store_bytes"], row["store_time_us"], row["store_jobs"]) == (500_000, 500, 1)


def test_what_vllm_adds_to_its_dict_later_does_not_count() -> None:
    """Its own logger keeps the first dict and adds each later step's numbers into it."""
    kept = {"types": {}, "data": {"vllm:kv_offload_load_bytes": {(): 1_000}}}
    with tapped_to_collector() as (tap, collector):
        make_logger().record(scheduler(kv_connector_stats=kept), iteration([0.01]))
        kept["data"]["vllm:kv_offload_load_bytes"][()] += 77_000
        tap.close()
        collector.read()
        (row,) = collector.rows(STEPS)
    assert row["load_bytes"] == 1_000
