"""Which level tells of a tail: the best one, but only where it covers the range."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope.histogram import bucket_of, quantile_us
from tests.analytics import memory_lake
from tests.analytics.memory_lake import S, fill
from tests.analytics.tap_rows import Row, itl, polars_quantile, ranked

lake_of = partial(memory_lake.lake_of, others=(), modules=("itl_quantile",))
MINUTE = 60 * S
START = 1_000 * MINUTE


def levels(rows: list[Row]) -> dict[str, tuple[float, bool]]:
    with lake_of({"itl_1s": rows}) as lake:
        return levels_in(lake)


def levels_in(lake: duckdb.DuckDBPyConnection) -> dict[str, tuple[float, bool]]:
    found = lake.execute(
        f"SELECT level, coverage_ratio, is_best FROM itl_levels({START}, {START + 10 * MINUTE})"
    ).fetchall()
    return {level: (coverage, best) for level, coverage, best in found}


def every_second(level: str, begin_s: int, end_s: int, observations: int = 10) -> list[Row]:
    return [itl(level, START + at_s * S, observations) for at_s in range(begin_s, end_s)]


def every_ten_seconds(begin_s: int, end_s: int) -> list[Row]:
    return [itl("scrape", START + at_s * S, 100) for at_s in range(begin_s + 10, end_s, 10)]


def test_what_clients_saw_is_better_than_what_the_engine_did_and_that_than_its_page() -> None:
    rows = every_second("step", 0, 600) + every_ten_seconds(0, 600)
    assert levels(rows) == {"step": (1.0, True), "scrape": (1.0, False)}
    assert levels(rows + every_second("gap", 0, 600, 3)) == {
        "gap": (1.0, True), "step": (1.0, False), "scrape": (1.0, False),
    }  # fmt: skip


def test_a_tap_that_came_in_the_middle_is_not_quoted_for_the_whole() -> None:
    rows = (
        every_second("gap", 300, 600) + every_second("step", 300, 600) + every_ten_seconds(0, 600)
    )
    found = levels(rows)
    assert found["gap"] == found["step"]
    coverage, best = found["step"]
    assert coverage == pytest.approx(0.5, abs=0.06)
    assert not best
    assert found["scrape"] == (1.0, True)


def test_a_middleware_that_came_later_than_the_plugin_leaves_the_steps() -> None:
    rows = every_second("gap", 500, 600) + every_second("step", 0, 600)
    assert {level for level, (_, best) in levels(rows).items() if best} == {"step"}


def test_long_stalls_of_the_server_are_no_lack_of_coverage() -> None:
    """Of 5 gaps a second only one in 20 s gets through: just then gaps are what to look at."""
    rows = every_second("step", 0, 600) + [itl("gap", START + s * S) for s in range(0, 600, 20)]
    assert levels(rows)["gap"] == (1.0, True)


def test_an_idle_engine_whose_scrape_tells_of_the_time_before_keeps_its_steps() -> None:
    """The last output falls into one slot of half a minute, its scrape into the next."""
    rows = every_second("step", 0, 29) + every_ten_seconds(0, 41)
    assert levels(rows) == {"step": (1.0, True), "scrape": (1.0, False)}


def test_a_request_here_and_there_without_a_stream_does_not_matter() -> None:
    rows = every_second("gap", 0, 540) + every_second("step", 0, 540)
    rows += [itl("step", START + 595 * S, 3)]
    coverage, best = levels(rows)["gap"]
    assert coverage == pytest.approx(5_400 / 5_403)
    assert best


def test_the_only_level_there_is_counts_however_little_it_covers() -> None:
    assert levels(every_second("gap", 599, 600)) == {"gap": (1.0, True)}
    assert levels([]) == {}


def test_engines_are_judged_apart() -> None:
    rows = every_second("step", 0, 600) + every_ten_seconds(0, 600)
    rows += [row | {"engine": 2} for row in every_ten_seconds(0, 600)]
    with lake_of({"itl_1s": rows}) as lake:
        found = lake.execute(
            f"SELECT engine, level FROM itl_per_output([0.5], {START}, {START + 10 * MINUTE}) "
            "ORDER BY ALL"
        ).fetchall()
    assert found == [(1, "step"), (2, "scrape")]


SLOTS = st.dictionaries(
    st.tuples(st.sampled_from(["gap", "step", "scrape"]), st.integers(0, 9)),
    st.integers(1, 50),
    min_size=1,
)


def test_coverage_is_what_polars_and_plain_python_say() -> None:
    @settings(max_examples=60)
    @given(slots=SLOTS)
    def holds(slots: dict[tuple[str, int], int]) -> None:
        rows = [
            itl(level, START + slot * MINUTE // 2 + 7 * S, count)
            for (level, slot), count in slots.items()
        ]
        fill(lake, {"itl_1s": rows})
        check_coverage(levels_in(lake), slots)

    with lake_of({}) as lake:
        holds()


def check_coverage(found: dict[str, tuple[float, bool]], slots: dict[tuple[str, int], int]) -> None:
    order = [level for level in ("gap", "step", "scrape") if any(key[0] == level for key in slots)]
    expected = {level: _coverage(slots, level, order) for level in order}
    assert {level: coverage for level, (coverage, _) in found.items()} == pytest.approx(expected)
    assert {level: coverage for level, (coverage, _) in found.items()} == pytest.approx(
        {level: _polars_coverage(slots, level, order) for level in order}
    )
    best = next(level for level in order if expected[level] >= 0.9)
    assert [level for level, (_, is_best) in found.items() if is_best] == [best]


def _coverage(slots: dict[tuple[str, int], int], level: str, order: list[str]) -> float:
    """Return the smallest share of a lesser level's observations in slots that a level tells of."""
    told = {slot + late for (of, slot) in slots if of == level for late in (0, 1)}
    shares = [1.0]
    for lesser in order[order.index(level) + 1 :]:
        mine = {slot: count for (of, slot), count in slots.items() if of == lesser}
        seen = sum(count for slot, count in mine.items() if slot in told)
        shares.append(seen / sum(mine.values()))
    return min(shares)


def _polars_coverage(slots: dict[tuple[str, int], int], level: str, order: list[str]) -> float:
    frame = pl.DataFrame(
        [(of, slot, count) for (of, slot), count in slots.items()],
        schema=["level", "slot", "count"], orient="row",
    )  # fmt: skip
    told = frame.filter(pl.col("level") == level)["slot"]
    lesser = frame.filter(pl.col("level").is_in(order[order.index(level) + 1 :]))
    is_told = pl.col("slot").is_in(told.to_list()) | (pl.col("slot") - 1).is_in(told.to_list())
    shares = lesser.group_by("level").agg(
        ((pl.col("count") * is_told).sum() / pl.col("count").sum()).alias("share")
    )
    least: Any = shares["share"].min()
    return 1.0 if least is None else float(least)


def test_the_figure_is_that_of_the_sorted_list_and_of_polars() -> None:
    @settings(max_examples=60)
    @given(
        gaps=st.lists(st.integers(1, 5_000_000), min_size=1, max_size=60),
        q=st.sampled_from([0.01, 0.5, 0.99, 1.0]),
    )
    def holds(gaps: list[int], q: float) -> None:
        check_figure(lake, gaps, q)

    with lake_of({}) as lake:
        holds()


def check_figure(lake: duckdb.DuckDBPyConnection, gaps: list[int], q: float) -> None:
    counts = Counter(bucket_of(one) for one in gaps)
    rows = [
        itl("gap", START, count, bucket=bucket, lower_bucket=bucket - 1)
        for bucket, count in counts.items()
    ]
    rows += [itl("step", START, len(gaps)), itl("scrape", START + S, len(gaps))]
    fill(lake, {"itl_10s": rows})
    ((level, value, count),) = lake.execute(
        "SELECT level, value_us, observations FROM "
        f"itl_per_output([{q}], {START}, {START + MINUTE}, source := 'itl_10s')"
    ).fetchall()
    assert (level, count) == ("gap", len(gaps))
    assert value == pytest.approx(ranked(gaps, q), rel=0.01)
    assert value == pytest.approx(polars_quantile(pl.Series(gaps), q), rel=0.01)
    assert value == pytest.approx(quantile_us(counts, q))
