"""Latency per token and time to first token, exact, against Polars and plain sorted lists."""

from __future__ import annotations

from functools import partial

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analytics import memory_lake
from tests.analytics.memory_lake import S, fill
from tests.analytics.tap_rows import MS, Row, gap, polars_quantile, ranked

lake_of = partial(
    memory_lake.lake_of,
    others=("token_gap", "first_token"),
    modules=("itl_per_token", "ttft_quantile"),
)
Q = st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.99, 1.0])


def per_token(rows: list[Row], quantiles: str = "[0.5]") -> list[tuple[float, ...]]:
    with lake_of({"token_gap": rows}) as lake:
        return lake.execute(
            "SELECT quantile, value_us, tokens, outputs, tokens_per_output "
            f"FROM itl_per_token({quantiles}, 0, {10 * S})"
        ).fetchall()


def test_the_pause_before_four_tokens_is_four_short_ones() -> None:
    """Speculative decoding: outputs wait 40 ms, tokens 10 ms."""
    rows = [gap(n * S, 40 * MS, tokens_in_output=4) for n in range(1, 6)]
    assert per_token(rows) == [(0.5, 10 * MS, 20, 5, 4.0)]


def test_each_token_counts_and_not_each_output() -> None:
    """1 token waits 90 ms and 9 wait 10 ms: of ten tokens the median is 10 ms."""
    rows = [
        gap(S, 90 * MS, tokens_in_output=1),
        gap(2 * S, 90 * MS, tokens_in_output=9),
    ]
    assert per_token(rows, "[0.5, 0.99]") == [
        (0.5, 10 * MS, 10, 2, 5.0),
        (0.99, 90 * MS, 10, 2, 5.0),
    ]


def test_unknown_tokens_are_no_single_ones_and_chunks_without_output_none() -> None:
    rows = [
        gap(S, 50 * MS, tokens_in_output=None),
        gap(2 * S, 50 * MS, tokens_in_output=0),
        gap(3 * S, None, tokens_in_output=2),
    ]
    assert per_token(rows) == []


def test_windows_and_engines_stay_apart() -> None:
    rows = [
        gap(S, 8 * MS, tokens_in_output=2),
        gap(3 * S, 9 * MS, tokens_in_output=1),
        gap(3 * S, 7 * MS, tokens_in_output=1, engine=2),
    ]
    with lake_of({"token_gap": rows}) as lake:
        found = lake.execute(
            f"SELECT wall_us, engine, value_us FROM itl_per_token([0.5], 0, {4 * S}, "
            f"step_us := {2 * S}) ORDER BY ALL"
        ).fetchall()
    assert found == [(0, 1, 4 * MS), (2 * S, 1, 9 * MS), (2 * S, 2, 7 * MS)]


def test_per_token_is_what_polars_and_the_sorted_list_say() -> None:
    @settings(max_examples=60)
    @given(
        chunks=st.lists(
            st.tuples(st.integers(0, 2_000_000), st.integers(1, 6)), min_size=1, max_size=40
        ),
        q=Q,
    )
    def holds(chunks: list[tuple[int, int]], q: float) -> None:
        rows = [gap(S, pause, tokens_in_output=tokens) for pause, tokens in chunks]
        fill(lake, {"token_gap": rows})
        check_tokens(lake, chunks, q)

    with lake_of({}) as lake:
        holds()


def check_tokens(lake: duckdb.DuckDBPyConnection, chunks: list[tuple[int, int]], q: float) -> None:
    ((value, tokens, outputs),) = lake.execute(
        f"SELECT value_us, tokens, outputs FROM itl_per_token([{q}], 0, {10 * S})"
    ).fetchall()
    every = [pause / count for pause, count in chunks for _ in range(count)]
    frame = pl.DataFrame(chunks, schema=["pause", "tokens"], orient="row").select(
        (pl.col("pause") / pl.col("tokens")).repeat_by("tokens").alias("share")
    )
    each = frame.explode("share", empty_as_null=False)
    assert (tokens, outputs) == (len(every), len(chunks))
    assert value == pytest.approx(ranked(every, q))
    assert value == pytest.approx(polars_quantile(each["share"], q))


def test_time_to_first_token_is_an_order_statistic() -> None:
    @settings(max_examples=60)
    @given(times=st.lists(st.integers(0, 60 * S), min_size=1, max_size=50), q=Q)
    def holds(times: list[int], q: float) -> None:
        rows = [{"wall_us": S, "engine": 1, "ttft_us": one} for one in times]
        fill(lake, {"first_token": rows})
        ((value, count),) = lake.execute(
            f"SELECT value_us, observations FROM ttft_quantile([{q}], 0, {10 * S})"
        ).fetchall()
        assert (value, count) == (ranked(times, q), len(times))
        assert value == polars_quantile(pl.Series(times), q)

    with lake_of({}) as lake:
        holds()


def test_time_to_first_token_by_window_and_engine() -> None:
    rows = [
        {"wall_us": wall * S, "engine": engine, "ttft_us": ttft}
        for wall, engine, ttft in ((1, 1, 30), (1, 1, 10), (2, 1, 70), (1, 2, 90))
    ]
    with lake_of({"first_token": rows}) as lake:
        found = lake.execute(
            f"SELECT wall_us // {S}, engine, value_us FROM ttft_quantile([0.99], 0, {9 * S}, "
            f"step_us := {S}) ORDER BY ALL"
        ).fetchall()
    assert found == [(1, 1, 30), (1, 2, 90), (2, 1, 70)]
