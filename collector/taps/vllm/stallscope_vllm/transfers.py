"""Sums of one step's KV transfers, out of the shapes that vLLM's offloading connector has had.

A shape that is not known gives nothing: missing, not zero. Load is to the GPU, store from it.
"""

from __future__ import annotations

from typing import Any

_LOAD_BYTES = "vllm:kv_offload_load_bytes"
_LOAD_TIME = "vllm:kv_offload_load_time"
_LOAD_SIZE = "vllm:kv_offload_load_size"
_STORE_BYTES = "vllm:kv_offload_store_bytes"
_STORE_TIME = "vllm:kv_offload_store_time"
_STORE_SIZE = "vllm:kv_offload_store_size"
_NAMES = {_LOAD_BYTES, _LOAD_TIME, _STORE_BYTES, _STORE_TIME}
_OLD_LOAD = ("CPU_to_GPU", "xfer:CPU_to_GPU")
_OLD_STORE = ("GPU_to_CPU", "xfer:GPU_to_CPU")
_MOST_CONNECTORS = 8
_MOST_JOBS = 1_024

Transfers = tuple[Any, Any, Any, Any, Any, Any]


def read_transfers(stats: Any) -> Transfers | None:
    """Return (load bytes, load s, store bytes, store s, loads, stores), or None.

    Args:
        stats: ``SchedulerStats.kv_connector_stats``; of a MultiConnector, one dict per connector.
    """
    if type(stats) is not dict:
        return None
    nested = [each for each in stats.values() if type(each) is dict]
    for one in (stats, *nested[:_MOST_CONNECTORS]):
        try:
            found = _read_one(one)
        except (AttributeError, KeyError, TypeError):  # a shape that only begins like ours
            found = None
        if found is not None:
            return found  # vLLM runs at most one offloading connector
    return None


def _read_one(stats: dict[Any, Any]) -> Transfers | None:
    values = stats.get("data")
    if type(values) is dict:  # since 0.24
        return _read_named(values) if _NAMES & values.keys() else None
    loads = _operations(stats, _OLD_LOAD)
    stores = _operations(stats, _OLD_STORE)
    if loads is None and stores is None:
        return None
    return _old_sums(loads or [], stores or [])


def _read_named(values: dict[Any, Any]) -> Transfers:
    return (
        _total(values, _LOAD_BYTES),
        _total(values, _LOAD_TIME),
        _total(values, _STORE_BYTES),
        _total(values, _STORE_TIME),
        _count(values, _LOAD_SIZE),
        _count(values, _STORE_SIZE),
    )


def _total(values: dict[Any, Any], name: str) -> Any:
    """Return a counter of the step over its label values; 0 when the step booked none."""
    return sum(values.get(name, {}).values())


def _count(values: dict[Any, Any], name: str) -> int:
    """Return how many observations a histogram of the step has."""
    return sum(len(observed) for observed in values.get(name, {}).values())


def _operations(stats: dict[Any, Any], names: tuple[str, ...]) -> list[Any] | None:
    """Return one direction's operations as they were listed before 0.24."""
    for name in names:
        operations = stats.get(name)
        if type(operations) is list:
            return operations[:_MOST_JOBS]
    return None


def _old_sums(loads: list[Any], stores: list[Any]) -> Transfers:
    return (
        sum(_field(each, "op_size") for each in loads),
        sum(_field(each, "op_time") for each in loads),
        sum(_field(each, "op_size") for each in stores),
        sum(_field(each, "op_time") for each in stores),
        len(loads),
        len(stores),
    )


def _field(operation: Any, name: str) -> Any:
    """Return a field of an operation: a dataclass in its process, a dict after its way here."""
    return operation[name] if type(operation) is dict else getattr(operation, name)
