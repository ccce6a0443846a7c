"""Rows as taps leave them in the lake, and the plain way to take a quantile of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import polars as pl

from tests.analytics.memory_lake import S

Row = dict[str, object]
MS = 1_000


def gap(wall_us: int, itl_us: int | None, **more: object) -> Row:
    """Return a chunk of request 1."""
    return {
        "wall_us": wall_us, "engine": 1, "request": 1, "chunk_index": 1, "itl_us": itl_us,
        "tokens_in_output": None,
    } | more  # fmt: skip


def step(wall_us: int, itl_us: int | None, outputs: int = 1, **more: object) -> Row:
    """Return a step."""
    return {
        "wall_us": wall_us, "mono_us": wall_us, "engine": 1, "engine_mono_us": wall_us,
        "itl_us": itl_us, "outputs": outputs, "outlier": False,
    } | more  # fmt: skip


def request(number: int, level: str, end_us: int = 5 * S, **more: object) -> Row:
    """Return what one level tells of a request."""
    return {
        "wall_us": end_us, "mono_us": end_us, "engine": 1, "request": number, "level": level,
    } | more  # fmt: skip


def itl(level: str, wall_us: int, observations: int = 1, **more: object) -> Row:
    """Return a row of a histogram rollup: so many gaps of about 1 ms."""
    return {
        "wall_us": wall_us, "engine": 1, "level": level, "bucket": 349, "lower_bucket": 348,
        "observations": observations,
    } | more  # fmt: skip


def ranked(values: Sequence[Any], quantile: float) -> Any:  # noqa: ANN401 - any kind of number
    """Return the value of rank ceil(q n) of a plain sorted list."""
    return sorted(values)[max(1, math.ceil(quantile * len(values))) - 1]


def polars_quantile(values: pl.Series, quantile: float) -> float:
    """Return the same as Polars takes it: the smallest value whose share of ranks reaches q."""
    frame = pl.DataFrame({"value": values}).sort("value").with_row_index("place", offset=1)
    wanted = frame.filter(pl.col("place") >= max(1, math.ceil(quantile * len(frame))))
    return float(wanted["value"][0])
