"""The histogram of a commit holds each gap of its rows once, and no level mixes with another."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope.histogram import bucket_of
from stallscope.storage.direct import seal_directly
from stallscope.storage.itl_rollup import itl_per_second
from stallscope.storage.layout import create_lake
from stallscope.storage.reader import Lake
from stallscope.storage.rollup_sql import rollup_into
from stallscope.storage.rows import to_batch

S = 1_000_000
Row = dict[str, object]
Key = tuple[int, int, str, int]


def sealed(table: str, rows: list[Row]) -> pa.Table:
    return pa.Table.from_batches([to_batch(table, rows)])


def step(wall_us: int, itl_us: int | None, outputs: int, *, outlier: bool = False) -> Row:
    return {
        "wall_us": wall_us, "mono_us": 1, "engine": 1, "engine_mono_us": 1, "itl_us": itl_us,
        "outputs": outputs, "outlier": outlier,
    }  # fmt: skip


def gap(wall_us: int, itl_us: int | None, engine: int = 1, tokens: int | None = None) -> Row:
    return {
        "wall_us": wall_us, "engine": engine, "request": 1, "chunk_index": 0, "itl_us": itl_us,
        "tokens_in_output": tokens,
    }  # fmt: skip


def counted(table: pa.Table) -> dict[Key, int]:
    """Return observations by second, engine, level and bucket."""
    return {
        (row["wall_us"] // S, row["engine"], row["level"], row["bucket"]): row["observations"]
        for row in table.to_pylist()
    }


def test_a_step_counts_once_per_output_and_its_outliers_with_their_own_gap() -> None:
    rows = [
        step(5 * S, 40_000, 7),
        step(5 * S, 900_000, 2, outlier=True),
        step(5 * S + 1, 40_000, 3),
        step(6 * S, 40_000, 1),
    ]
    assert counted(itl_per_second({"engine_step": sealed("engine_step", rows)})) == {
        (5, 1, "step", bucket_of(40_000)): 10,
        (5, 1, "step", bucket_of(900_000)): 2,
        (6, 1, "step", bucket_of(40_000)): 1,
    }


def test_a_step_without_outputs_or_gap_leaves_nothing() -> None:
    rows = [step(5 * S, 40_000, 0), step(5 * S, None, 3)]
    assert counted(itl_per_second({"engine_step": sealed("engine_step", rows)})) == {}


def test_a_chunk_counts_once_whatever_it_holds_and_the_first_has_no_pause() -> None:
    rows = [gap(5 * S, None), gap(5 * S, 40_000, tokens=5), gap(5 * S, 0), gap(5 * S, 40_000, 2)]
    assert counted(itl_per_second({"token_gap": sealed("token_gap", rows)})) == {
        (5, 1, "gap", bucket_of(40_000)): 1,
        (5, 1, "gap", -1): 1,
        (5, 2, "gap", bucket_of(40_000)): 1,
    }


def test_levels_of_one_second_and_gap_stay_apart() -> None:
    scrape: Row = {
        "wall_us": 5 * S, "mono_us": 1, "engine": 1, "window_us": S, "family": "itl_us",
        "observations": 4, "sum": 1, "bounds": [bound := 40_000], "counts": [4, 0],
    }  # fmt: skip
    found = itl_per_second({
        "engine_step": sealed("engine_step", [step(5 * S, bound, 7)]),
        "token_gap": sealed("token_gap", [gap(5 * S, bound)]),
        "engine_histogram": sealed("engine_histogram", [scrape]),
    })  # fmt: skip
    bucket = bucket_of(bound)
    assert counted(found) == {
        (5, 1, "gap", bucket): 1, (5, 1, "step", bucket): 7, (5, 1, "scrape", bucket): 4,
    }  # fmt: skip
    lower = {row["level"]: row["lower_bucket"] for row in found.to_pylist()}
    assert lower == {"gap": bucket - 1, "step": bucket - 1, "scrape": -1}


STEPS = st.lists(
    st.tuples(st.integers(0, 300), st.none() | st.integers(0, 2**32 - 2), st.integers(0, 300)),
    max_size=40,
)
GAPS = st.lists(
    st.tuples(st.integers(0, 300), st.none() | st.integers(0, 2**32 - 2), st.integers(0, 65_535)),
    max_size=40,
)


@settings(max_examples=30)
@given(steps=STEPS, gaps=GAPS)
def test_no_gap_is_lost_or_doubled_by_any_rollup(
    steps: list[tuple[int, int | None, int]], gaps: list[tuple[int, int | None, int]]
) -> None:
    per_second = itl_per_second({
        "engine_step": sealed("engine_step", [step(at * S, one, n) for at, one, n in steps]),
        "token_gap": sealed("token_gap", [gap(at * S, one, engine) for at, one, engine in gaps]),
    })  # fmt: skip
    every = [(at, 1, "step", one) for at, one, n in steps if one is not None for _ in range(n)]
    every += [(at, engine, "gap", one) for at, one, engine in gaps if one is not None]
    for name, seconds in (("itl_1s", 1), ("itl_10s", 10), ("itl_60s", 60)):
        found = counted(per_second if seconds == 1 else _coarser(per_second, name))
        assert found == _by_hand(every, seconds)
        assert found == _by_polars(every, seconds)


def _coarser(per_second: pa.Table, name: str) -> pa.Table:
    rollup = rollup_into(name)
    assert rollup is not None
    with duckdb.connect(":memory:") as connection:
        connection.register("source", per_second)
        return connection.sql(rollup.select).to_arrow_table()


def _by_hand(every: list[tuple[int, int, str, int]], seconds: int) -> dict[Key, int]:
    return dict(
        Counter(
            (at - at % seconds, engine, level, bucket_of(one)) for at, engine, level, one in every
        )
    )


def _by_polars(every: list[tuple[int, int, str, int]], seconds: int) -> dict[Key, int]:
    kinds: dict[str, Any] = {"at": pl.Int64, "engine": pl.Int64, "level": pl.String, "us": pl.Int64}
    frame = pl.DataFrame(every, schema=kinds, orient="row").with_columns(
        pl.col("at") - pl.col("at") % seconds,
        pl.col("us").map_elements(bucket_of, return_dtype=pl.Int64).alias("bucket"),
    )
    added = frame.group_by("at", "engine", "level", "bucket").len()
    return {row[:4]: row[4] for row in added.rows()}


def test_the_lake_keeps_levels_apart_from_seal_to_minute(tmp_path: Path) -> None:
    """Through a real commit: what readers get from each rollup is what was measured."""
    lake = tmp_path / "lake"
    create_lake(lake)
    start = 1_700_000_000 * S
    seal_directly(lake, {
        "engine_step": [step(start, 40_000, 9), step(start + 70 * S, 40_000, 5)],
        "token_gap": [gap(start, 50_000), gap(start + 70 * S, 60_000)],
    }, sync=False)  # fmt: skip
    names = ("itl_1s", "itl_10s", "itl_60s")
    with Lake(lake).connect(tables=names) as connection:
        for name in names:
            found = connection.execute(
                f"SELECT level, sum(observations) FROM {name} GROUP BY level ORDER BY level"
            ).fetchall()
            assert found == [("gap", 2), ("step", 14)]
