"""What steps tell beside the metrics page: KV copies, cache hits, work; and fetches of the page."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analytics import memory_lake
from tests.analytics.memory_lake import S, fill, scrape
from tests.analytics.tap_rows import MS, Row, step

lake_of = partial(
    memory_lake.lake_of,
    others=("engine_step", "engine_metrics"),
    modules=("intervals", "kv_copies", "kv_fetches", "kv_hits_of_steps", "engine_work"),
)


def ask(
    call: str, steps: list[Row] | None = None, scrapes: list[Row] | None = None
) -> list[dict[str, Any]]:
    with lake_of({"engine_step": steps or [], "engine_metrics": scrapes or []}) as lake:
        result = lake.execute(f"SELECT * FROM {call}")
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


COPYING = [
    step(1 * S, 9, load_bytes=6_000_000, load_time_us=2 * MS, load_jobs=2, store_bytes=1_000_000,
         store_time_us=4 * MS, store_jobs=1),
    step(2 * S, 9, load_bytes=2_000_000, load_time_us=2 * MS, load_jobs=1),
    step(3 * S, 9),
]  # fmt: skip


def test_achieved_rate_is_bytes_over_time_on_the_wire_per_direction() -> None:
    rx, tx = ask(f"kv_copies(0, {4 * S})", COPYING)
    assert (rx["direction"], rx["basis"], rx["jobs"]) == ("rx", "steps", 3)
    assert (rx["bytes"], rx["service_us"]) == (8_000_000, 4 * MS)
    assert rx["bytes_per_second"] == pytest.approx(2e9), "8 MB in 4 ms"
    assert rx["busy_ratio"] == pytest.approx(0.001), "4 ms of 4 s"
    assert (tx["direction"], tx["service_us"]) == ("tx", 4 * MS)
    assert tx["bytes_per_second"] == pytest.approx(250e6)


def test_ranks_add_up_unless_their_number_is_given() -> None:
    steps = [step(S, 9, load_bytes=9_000, load_time_us=1_500 * MS)]
    (unknown,) = [row for row in ask(f"kv_copies({S}, {2 * S})", steps) if row["bytes"]]
    assert (unknown["busy_ratio"], unknown["flag"]) == (pytest.approx(1.5), "ranks add up")
    (known,) = [row for row in ask(f"kv_copies({S}, {2 * S}, ranks := 2)", steps) if row["bytes"]]
    assert (known["busy_ratio"], known["flag"]) == (pytest.approx(0.75), None)
    assert known["bytes_per_second"] == unknown["bytes_per_second"], "a rate is per rank anyway"


def test_steps_and_counters_of_the_page_stand_beside_each_other() -> None:
    scrapes = [
        scrape(2 * S, window_us=2 * S, load_bytes_delta=8_000_000, load_time_us_delta=4 * MS),
        scrape(3 * S, window_us=None, load_bytes_delta=None, load_time_us_delta=None),
    ]
    found = {row["basis"]: row for row in ask(f"kv_copies(0, {4 * S})", COPYING, scrapes)
             if row["direction"] == "rx"}  # fmt: skip
    assert found["steps"]["bytes"] == found["counters"]["bytes"] == 8_000_000
    assert found["counters"]["busy_ratio"] == pytest.approx(0.002), "of the 2 s it covers"


def test_an_engine_that_copies_nothing_has_no_rate_and_one_without_a_connector_no_row() -> None:
    (idle,) = ask(f"kv_copies(0, {4 * S})", [step(S, 9, load_bytes=0, load_time_us=0)])
    assert (idle["bytes_per_second"], idle["busy_ratio"]) == (None, 0)
    assert ask(f"kv_copies(0, {4 * S})", [step(S, 9)], [scrape(S)]) == []


def test_service_time_without_bytes_makes_no_rate_slower() -> None:
    steps = [
        step(S, 9, load_bytes=1_000, load_time_us=10),
        step(2 * S, 9, load_bytes=None, load_time_us=990),
    ]
    (row,) = ask(f"kv_copies(0, {4 * S})", steps)
    assert row["bytes_per_second"] == pytest.approx(1_000 / 10e-6)
    assert row["service_us"] == 1_000


def test_hits_of_steps_are_shares_of_what_was_looked_up() -> None:
    steps = [
        step(S, 9, prefix_queries=100, prefix_hits=40, external_queries=60, external_hits=0),
        step(2 * S, 9, prefix_queries=100, prefix_hits=20),
        step(3 * S, 9, prefix_hits=7),
    ]
    device, external = ask(f"kv_hits_of_steps(0, {4 * S})", steps)
    assert (device["tier"], device["hits"], device["queries"]) == ("device", 60, 200)
    assert (device["hit_ratio"], device["basis"]) == (pytest.approx(0.3), "engine steps")
    assert (external["tier"], external["hit_ratio"]) == ("external", 0)
    (none,) = ask(f"kv_hits_of_steps(0, {4 * S})", [step(S, 9, prefix_queries=0, prefix_hits=0)])
    assert none["hit_ratio"] is None
    (odd,) = ask(f"kv_hits_of_steps(0, {4 * S})", [step(S, 9, prefix_queries=5, prefix_hits=6)])
    assert odd["flag"] == "hits exceed queries"


def test_fetches_are_those_that_wait_and_those_under_way() -> None:
    scrapes = [
        scrape(S, fetch_waiting=3.0, fetch_in_progress=1.0, fetch_completed=2.0),
        scrape(2 * S, fetch_waiting=1.0, fetch_in_progress=0.0, fetch_completed=0.0),
        scrape(3 * S),
        scrape(3 * S, engine=2),
    ]
    (row,) = ask(f"kv_fetches(0, {4 * S})", scrapes=scrapes)
    assert (row["engine"], row["scrapes"]) == (1, 2)
    assert (row["waiting_mean"], row["in_progress_mean"], row["completed_mean"]) == (2, 0.5, 1)
    assert (row["in_flight_mean"], row["in_flight_max"]) == (2.5, 4)


def test_work_counts_steps_once_and_outliers_as_outputs() -> None:
    steps = [
        step(S, 10, 4, generation_tokens=5, prefill_tokens=300, preempted=1, running=7, waiting=2),
        step(S, 90, 1, outlier=True),
        step(2 * S, None, 0, generation_tokens=0, prefill_tokens=200, running=3, waiting=9),
    ]
    (row,) = ask(f"engine_work(0, {4 * S})", steps)
    assert (row["steps"], row["outputs"]) == (2, 5)
    assert row["itl_mean_us"] == pytest.approx((4 * 10 + 90) / 5)
    assert (row["itl_max_us"], row["generation_tokens"], row["prefill_tokens"]) == (90, 5, 500)
    assert (row["preempted"], row["running_max"], row["waiting_max"]) == (1, 7, 9)
    first, second = ask(f"engine_work(0, {4 * S}, step_us := {S})", steps)
    assert (first["wall_us"], second["wall_us"], second["itl_mean_us"]) == (S, 2 * S, None)


NUMBER = st.none() | st.integers(0, 10**6)


def test_sums_are_what_polars_and_plain_python_say() -> None:
    @settings(max_examples=60)
    @given(told=st.lists(st.tuples(NUMBER, NUMBER, NUMBER, NUMBER), min_size=1, max_size=20))
    def holds(told: list[tuple[int | None, ...]]) -> None:
        names = ("load_bytes", "load_time_us", "prefix_queries", "prefix_hits")
        rows = [step(S + n, 9) | dict(zip(names, one, strict=True)) for n, one in enumerate(told)]
        fill(lake, {"engine_step": rows})
        copies = lake.execute(
            f"SELECT service_us, bytes_per_second FROM kv_copies(0, {4 * S})"
        ).fetchall()
        hits = lake.execute(f"SELECT hits, queries FROM kv_hits_of_steps(0, {4 * S})").fetchall()
        assert copies == _copies(told)
        assert hits == _hits(told)
        assert (copies, hits) == _polars_sums(told)

    with lake_of({}) as lake:
        holds()


def _copies(told: list[tuple[int | None, ...]]) -> list[tuple[Any, ...]]:
    service = [long for _, long, _, _ in told if long is not None]
    known = [(load, long) for load, long, _, _ in told if load is not None and long is not None]
    if not service:
        return []
    time = sum(long for _, long in known)
    return [(sum(service), pytest.approx(1e6 * sum(n for n, _ in known) / time) if time else None)]


def _hits(told: list[tuple[int | None, ...]]) -> list[tuple[Any, ...]]:
    known = [(hit, asked) for _, _, asked, hit in told if hit is not None and asked is not None]
    return [(sum(hit for hit, _ in known), sum(asked for _, asked in known))] if known else []


def _polars_sums(
    told: list[tuple[int | None, ...]],
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    names = dict.fromkeys(("load", "long", "asked", "hit"), pl.Int64)
    frame = pl.DataFrame(told, schema=names, orient="row")
    timed = frame.drop_nulls("long")
    both = timed.drop_nulls("load")
    rate = both.select(1e6 * pl.col("load").sum() / pl.col("long").sum()).item()
    fine = None if not len(both) or not both["long"].sum() else pytest.approx(rate)
    looked = frame.drop_nulls(["asked", "hit"])
    return (
        [(timed["long"].sum(), fine)] if len(timed) else [],
        [(looked["hit"].sum(), looked["asked"].sum())] if len(looked) else [],
    )
