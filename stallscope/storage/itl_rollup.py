"""Inter-token latency per second, derived from the very rows that a commit seals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stallscope.histogram import ZERO_BUCKET, bucket_of, buckets_of
from stallscope.schema import arrow_schema
from stallscope.units import US_PER_SECOND

INFINITE_BUCKET = 32_767
ITL_SOURCES = ("token_gap", "engine_step", "engine_histogram")
_LARGEST_U32 = 2**32 - 1  # only an engine that prints nonsense gets there; it must stop no seal
_Key = tuple[int, int, str, int, int]  # second, engine, level, bucket, lower bucket


def itl_per_second(sealed: Mapping[str, pa.Table]) -> pa.Table:
    """Return rows of itl_1s for the rows of one commit.

    Args:
        sealed: Rows by table; tables that say nothing of inter-token latency are passed over.
    """
    counts: Counter[_Key] = Counter()
    if "token_gap" in sealed:
        _count_gaps(counts, sealed["token_gap"])
    if "engine_step" in sealed:
        _count_steps(counts, sealed["engine_step"])
    if "engine_histogram" in sealed:
        _count_buckets(counts, sealed["engine_histogram"])
    return _to_table(counts)


def _count_gaps(counts: Counter[_Key], rows: pa.Table) -> None:
    """Add the gaps of tokens; the first chunk of an answer has none."""
    known = rows.filter(rows.column("itl_us").is_valid())
    weights = np.ones(known.num_rows, dtype=np.int64)
    _count(counts, "gap", known, weights)


def _count_steps(counts: Counter[_Key], rows: pa.Table) -> None:
    """Add the gap of each step, and of each of its outliers, once per request that had it."""
    has_outputs = pc.greater(rows.column("outputs"), 0)
    known = rows.filter(pc.and_(rows.column("itl_us").is_valid(), has_outputs))
    _count(counts, "step", known, known.column("outputs").to_numpy().astype(np.int64))


def _count(
    counts: Counter[_Key],
    level: str,
    rows: pa.Table,
    weights: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> None:
    """Add weighted gaps by second, engine and bucket."""
    if not rows.num_rows:
        return
    seconds = rows.column("wall_us").to_numpy() // US_PER_SECOND
    engines = rows.column("engine").to_numpy().astype(np.int64)
    buckets = buckets_of(rows.column("itl_us").to_numpy()).astype(np.int64) + 1
    base = int(seconds.min())
    packed = ((seconds - base) << 32) | (engines << 16) | buckets
    keys, inverse = np.unique(packed, return_inverse=True)
    totals = np.bincount(inverse, weights=weights).astype(np.int64)
    for key, total in zip(keys.tolist(), totals.tolist(), strict=True):
        bucket = (key & 0xFFFF) - 1
        second = base + (key >> 32)
        counts[second, (key >> 16) & 0xFFFF, level, bucket, max(bucket - 1, ZERO_BUCKET)] += total


def _count_buckets(counts: Counter[_Key], rows: pa.Table) -> None:
    """Add the engine's own buckets, whose edges are kept as they are."""
    columns = ("wall_us", "engine", "family", "bounds", "counts")
    for row in rows.select(columns).to_pylist():
        if row["family"] != "itl_us":
            continue
        edges = [ZERO_BUCKET, *(bucket_of(bound) for bound in row["bounds"]), INFINITE_BUCKET]
        second = row["wall_us"] // US_PER_SECOND
        for lower, upper, count in zip(edges, edges[1:], row["counts"], strict=False):
            if count:
                counts[second, row["engine"], "scrape", upper, lower] += count


def _to_table(counts: Counter[_Key]) -> pa.Table:
    """Return the counts as rows of itl_1s in order of time."""
    rows = sorted(counts.items())
    columns: Iterable[list[object]] = (
        [key[0] * US_PER_SECOND for key, _ in rows],
        [key[1] for key, _ in rows],
        [key[2] for key, _ in rows],
        [key[3] for key, _ in rows],
        [key[4] for key, _ in rows],
        [min(count, _LARGEST_U32) for _, count in rows],
    )
    schema = arrow_schema("itl_1s")
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
