"""A day of a host with eight GPUs and an engine on each, as the merged segments of a lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lab.synthetic.gauges import link_rows
from lab.synthetic.lake_maker import LakeMaker
from stallscope.histogram import bucket_of
from stallscope.schema import TABLES, arrow_schema
from stallscope.units import US_PER_MS, US_PER_SECOND

Integers = npt.NDArray[np.int64]

ENGINES = 8
DRIVES = 10
_TOKENS_PER_SECOND = 2_500
_HOUR_US = 3_600 * US_PER_SECOND
_MEDIAN_US = 25 * US_PER_MS
_SIGMA = 0.18
_SPIKES = 0.003
_ITL = (("itl_60s", 60, 24), ("itl_10s", 10, 6), ("itl_1s", 1, 1))
"""(table, seconds, hours back): pages read seconds of the last minutes and minutes of a day."""
_FIRST_BOUNDS = (1, 5, 10, 20, 40, 60, 80, 100, 250, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000)


def make_day(lake: Path, until_us: int) -> None:
    """Fill a new lake with 24 h that end at ``until_us``.

    Tables: itl_60s (24 h), itl_10s (6 h), itl_1s (1 h), gpu_link (24 h at 1 s), and per minute for
    24 h gpu_link_1m, block_device_1m, engine_metrics_1m and engine_histogram_1m.
    """
    dice = np.random.default_rng(4)
    with LakeMaker(lake) as maker:
        for table, seconds, hours in _ITL:
            for walls in _hours(until_us, hours, seconds):
                maker.add(table, itl_rows(dice, table, walls, seconds))
        for walls in _hours(until_us, 24, 1):
            maker.add("gpu_link", _links(dice, walls))
        for walls in _hours(until_us, 24, 60):
            maker.add("gpu_link_1m", _minutes(dice, "gpu_link_1m", walls, ENGINES))
            maker.add("block_device_1m", _minutes(dice, "block_device_1m", walls, DRIVES))
            maker.add("engine_metrics_1m", _minutes(dice, "engine_metrics_1m", walls, ENGINES))
            maker.add("engine_histogram_1m", _histograms(dice, walls))


def _hours(until_us: int, hours: int, seconds: int) -> Iterator[Integers]:
    """Yield the row times of each hour, oldest first."""
    step = seconds * US_PER_SECOND
    for hour in range(hours, 0, -1):
        begin = (until_us - hour * _HOUR_US) // step * step
        yield np.arange(begin, begin + _HOUR_US, step, dtype=np.int64)


def itl_rows(dice: np.random.Generator, table: str, walls: Integers, seconds: int) -> pa.Table:
    """Return histogram rows of all engines, level gap: lognormal steps with rare spikes."""
    buckets = np.arange(bucket_of(5_000), bucket_of(400_000))
    shares = _shares(buckets)
    parts = []
    for engine in range(1, ENGINES + 1):
        drift = 1 + 0.3 * np.sin(walls / _HOUR_US + engine)
        counts = dice.poisson(np.outer(drift * _TOKENS_PER_SECOND * seconds, shares))
        row, column = np.nonzero(counts)
        parts.append((walls[row], np.full(len(row), engine), buckets[column], counts[row, column]))
    wall, engine_ids, bucket, count = (np.concatenate(c) for c in zip(*parts, strict=True))
    order = np.argsort(wall, kind="stable")
    level = pa.array(["gap"] * len(order))
    columns = (wall, engine_ids, level, bucket, bucket - 1, count)
    return _table(table, [c if c is level else c[order] for c in columns])


def _shares(buckets: Integers) -> npt.NDArray[np.float64]:
    """Return each bucket's share of the gaps."""
    middle = np.log(1.02) * (buckets - 0.5)
    body = np.exp(-((middle - np.log(_MEDIAN_US)) ** 2) / (2 * _SIGMA**2))
    spikes = np.exp(-((middle - np.log(8 * _MEDIAN_US)) ** 2) / (2 * _SIGMA**2))
    body *= (1 - _SPIKES) / body.sum()
    spikes *= _SPIKES / spikes.sum()
    shares: npt.NDArray[np.float64] = body + spikes
    return shares


def _links(dice: np.random.Generator, walls: Integers) -> pa.Table:
    return pa.Table.from_batches(
        [link_rows(dice, walls, gpu, US_PER_SECOND) for gpu in range(ENGINES)]
    )


def _minutes(dice: np.random.Generator, table: str, walls: Integers, entities: int) -> pa.Table:
    """Return minute rows with noise in every gauge and sum."""
    count = len(walls) * entities
    columns: list[npt.NDArray[np.generic]] = [
        np.tile(walls, entities),
        np.repeat(np.arange(1, entities + 1), len(walls)),
        np.full(count, 60),
    ]
    for column in TABLES[table].columns[3:]:
        is_gauge = column.name.endswith(("_min", "_avg", "_max"))
        columns.append(dice.random(count) if is_gauge else dice.integers(0, 10_000, count))
    return _table(table, columns)


def _histograms(dice: np.random.Generator, walls: Integers) -> pa.Table:
    """Return minute histograms of the families that the page shows."""
    bounds = [bound * US_PER_MS for bound in _FIRST_BOUNDS]
    rows = []
    for engine in range(1, ENGINES + 1):
        for family in ("ttft_us", "e2e_us", "itl_us", "tpot_us"):
            counts = dice.poisson(40, (len(walls), len(bounds) + 1))
            for wall, of_minute in zip(walls.tolist(), counts.tolist(), strict=True):
                rows.append((wall, engine, family, sum(of_minute), 10**6, bounds, of_minute))
    return _table("engine_histogram_1m", list(zip(*rows, strict=True)))


def _table(name: str, columns: Sequence[object]) -> pa.Table:
    """Return columns in the schema's order as a table of it."""
    schema = arrow_schema(name)
    arrays = [
        (column if isinstance(column, pa.Array) else pa.array(column)).cast(field.type, safe=False)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
