"""Gauge rows with the grain and the noise of real ones, as columns for long stretches of time.

Disks follow /proc/diskstats: whole I/Os and whole milliseconds per window, so means are fractions
of small integers and idle columns stay zero. GPUs follow NVML: clocks in steps of 15 MHz, power in
milliwatts, memory in pages of 2 MiB.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stallscope.schema import arrow_schema, table
from stallscope.units import US_PER_MS

Numbers = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]

_READ_BYTES = 131_072  # a KV block file is read in chunks of 128 KiB
_LINK_BYTES_PER_SECOND = 55e9  # what a PCIe 5.0 x16 link achieves
_GPU_MEMORY_BYTES = 85_899_345_920


def disk_rows(dice: np.random.Generator, walls: Times, disk: int, window_us: int) -> pa.RecordBatch:
    """Return block_device rows of one NVMe drive; every other drive is idle most of the time."""
    count = len(walls)
    burst = _bursts(dice, count, busy_share=0.7 if disk % 2 else 0.05)
    reads = dice.poisson(180 * burst * window_us / 100_000)
    writes = dice.poisson(40 * burst * window_us / 100_000)
    read_ms = np.round(reads * dice.lognormal(-1.6, 0.3, count))
    write_ms = np.round(writes * dice.lognormal(-2.5, 0.3, count))
    busy_ms = np.minimum(np.round(read_ms * 0.4 + write_ms * 0.2), window_us / US_PER_MS)
    in_flight = dice.poisson(read_ms * US_PER_MS / window_us)
    columns: dict[str, npt.NDArray[np.generic] | pa.Array] = {
        "reads": reads,
        "read_merges": np.zeros(count, dtype=np.int64),
        "read_bytes": reads * _READ_BYTES,
        "read_await_mean_us": _mean_us(read_ms, reads),
        "writes": writes,
        "write_merges": writes // 8,
        "write_bytes": writes * 16_384,
        "write_await_mean_us": _mean_us(write_ms, writes),
        "discards": np.zeros(count, dtype=np.int64),
        "discard_merges": np.zeros(count, dtype=np.int64),
        "discard_bytes": np.zeros(count, dtype=np.int64),
        "flushes": np.zeros(count, dtype=np.int64),
        "queue_mean": (read_ms + write_ms) * US_PER_MS / window_us,
        "in_flight": in_flight,
        "in_flight_read": in_flight,
        "in_flight_write": np.zeros(count, dtype=np.int64),
        "busy_ratio": busy_ms * US_PER_MS / window_us,
        "busy_raw_ratio": busy_ms * US_PER_MS / window_us,
        "io_stuck_candidate": (reads + writes == 0) & (in_flight > 0),
    }
    return _batch("block_device", dice, walls, window_us, {**columns, "device": _all(count, disk)})


def pressure_rows(dice: np.random.Generator, walls: Times, window_us: int) -> pa.RecordBatch:
    """Return host_pressure rows of scope 'system'; PSI totals are whole microseconds."""
    count = len(walls)
    stall = {
        f"{resource}_{share}_ratio": np.round(dice.exponential(mean, count)) / window_us
        for resource, share, mean in (
            ("cpu", "some", 2_000.0),
            ("memory", "some", 0.2),
            ("memory", "full", 0.1),
            ("io", "some", 900.0),
            ("io", "full", 500.0),
        )
    }
    memory = {
        "memory_available_bytes": 4_096 * np.cumsum(dice.integers(-200, 200, count)) + 400 * 2**30,
        "memory_total_bytes": _all(count, 1_024 * 2**30),
        "dirty_bytes": 4_096 * dice.integers(0, 3_000, count),
        "writeback_bytes": _all(count, 0),
        "shmem_bytes": _all(count, 220 * 2**30),
        "mlocked_bytes": _all(count, 3 * 2**30),
        "unevictable_bytes": _all(count, 3 * 2**30),
        "hugepages_total": _all(count, 0),
        "hugepages_free": _all(count, 0),
    }
    scope = pa.array(["system"] * count)
    columns = {**{name: np.minimum(values, 1) for name, values in stall.items()}, **memory}
    return _batch("host_pressure", dice, walls, window_us, {**columns, "scope": scope})


def link_rows(dice: np.random.Generator, walls: Times, gpu: int, window_us: int) -> pa.RecordBatch:
    """Return gpu_link rows of one GPU that reloads KV cache now and then."""
    count = len(walls)
    seconds = window_us / 1e6
    rx = np.round(_bursts(dice, count, 0.3) * 30e9 * seconds * dice.lognormal(0, 0.2, count))
    tx = np.round(_bursts(dice, count, 0.2) * 12e9 * seconds * dice.lognormal(0, 0.2, count))
    columns: dict[str, npt.NDArray[np.generic] | pa.Array] = {
        "rx_bytes": rx.astype(np.int64),
        "tx_bytes": tx.astype(np.int64),
        "rx_window_mean_bytes_per_second": rx / seconds,
        "tx_window_mean_bytes_per_second": tx / seconds,
        "rx_saturation_ratio": np.minimum(rx / seconds / _LINK_BYTES_PER_SECOND, 1),
        "tx_saturation_ratio": np.minimum(tx / seconds / _LINK_BYTES_PER_SECOND, 1),
        "link_generation": _all(count, 5),
        "link_width": _all(count, 16),
    }
    return _batch("gpu_link", dice, walls, window_us, {**columns, "device": _all(count, gpu)})


def state_rows(dice: np.random.Generator, walls: Times, gpu: int, window_us: int) -> pa.RecordBatch:
    """Return gpu_state rows of one GPU under load."""
    count = len(walls)
    load = _bursts(dice, count, 0.8)
    columns: dict[str, npt.NDArray[np.generic] | pa.Array] = {
        "sm_clock_mhz": 1_980 - 15 * dice.poisson(load),
        "memory_clock_mhz": _all(count, 2_619),
        "throttle_reasons": _all(count, 0),
        "power_watts": np.round((120 + 420 * load + dice.normal(0, 6, count)) * 1_000) / 1_000,
        "temperature_celsius": np.round(45 + 20 * load + dice.normal(0, 0.6, count)),
        "memory_used_bytes": _all(count, 76 * 2**30) + 2**21 * dice.integers(0, 4, count),
        "memory_total_bytes": _all(count, _GPU_MEMORY_BYTES),
        "utilisation_ratio": np.round(np.clip(load, 0, 1) * 100) / 100,
        "replays": _all(count, 0),
    }
    return _batch("gpu_state", dice, walls, window_us, {**columns, "device": _all(count, gpu)})


def value_cells(name: str, rows: pa.Table | pa.RecordBatch) -> int:
    """Return the number of gauge samples in rows: cells that hold a value, not an identity.

    Times, keys, windows and booleans are not counted, nor is NULL.
    """
    spec = table(name)
    identity = {"wall_us", "mono_us", "window_us", *spec.key}
    return sum(
        rows.num_rows - rows.column(field.name).null_count
        for field in rows.schema
        if field.name not in identity and not pa.types.is_boolean(field.type)
    )


def _bursts(dice: np.random.Generator, count: int, busy_share: float) -> Numbers:
    """Return a load that is switched on for that share of time, in stretches, with slow drift."""
    stretches = dice.random(count // 50 + 1) < busy_share
    drift = 1 + 0.3 * np.sin(np.arange(count) / 200 + dice.uniform(0, 6))
    return np.repeat(stretches, 50)[:count] * drift


def _mean_us(total_ms: Numbers, counts: npt.NDArray[np.int64]) -> pa.Array:
    """Return mean microseconds per I/O, NULL where there was none."""
    means = total_ms * US_PER_MS / np.maximum(counts, 1)
    return pa.array(means.astype(np.float32), mask=counts == 0)


def _all(count: int, value: int) -> npt.NDArray[np.int64]:
    return np.full(count, value, dtype=np.int64)


def _batch(
    name: str,
    dice: np.random.Generator,
    walls: Times,
    window_us: int,
    columns: Mapping[str, npt.NDArray[np.generic] | pa.Array],
) -> pa.RecordBatch:
    """Return columns as rows of a table; what is left out is NULL."""
    times = {
        "wall_us": walls,
        "mono_us": walls - int(walls[0]) + 10**12,
        "window_us": window_us + dice.integers(-150, 150, len(walls)),
    }
    known = {**times, **columns}
    arrays = [
        pa.array(known[field.name]).cast(field.type, safe=False)
        if field.name in known
        else pa.nulls(len(walls), field.type)
        for field in arrow_schema(name)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(name))
