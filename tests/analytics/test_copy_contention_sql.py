"""Seconds of the engine beside seconds of the link: joined by overlap, never by equal times."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope.histogram import bucket_of
from tests.analytics import memory_lake
from tests.analytics.memory_lake import S, histogram, scrape

lake_of = partial(
    memory_lake.lake_of,
    others=("itl_1s", "engine_histogram", "engine_metrics", "gpu_link", "copy_event"),
    modules=("itl_quantile", "copy_path", "intervals", "itl_excess", "copy_contention"),
)
Rows = list[dict[str, object]]
LAST = 100 * S


def ask(rows: dict[str, Rows], sql: str) -> list[tuple[Any, ...]]:
    with lake_of(rows) as lake:
        return lake.execute(sql).fetchall()


def reading(end_us: int, rx: float | None, window_us: int = S, **more: object) -> dict[str, object]:
    return {
        "wall_us": end_us, "mono_us": 1, "device": 7, "window_us": window_us, "state": "ok",
        "rx_saturation_ratio": rx, "tx_saturation_ratio": None if rx is None else rx / 4,
        "coverage_ratio": 0.5, **more,
    }  # fmt: skip


def windows(rows: Rows, direction: str = "rx") -> dict[int, float | None]:
    found = ask(
        {"gpu_link": rows},
        f"SELECT wall_us, saturation_ratio FROM link_windows(0, {LAST}) "
        f"WHERE direction = '{direction}'",
    )
    return {wall // S: value for wall, value in found}


def test_a_reading_counts_in_each_window_by_its_share_of_it() -> None:
    """Readings end at 1.3, 2.3 and 3.3 s: window 2 holds 0.3 s of one and 0.7 s of the next."""
    rows = [reading(13 * S // 10, 0.2), reading(23 * S // 10, 0.4), reading(33 * S // 10, 0.9)]
    found = windows(rows)
    assert found[1] == pytest.approx(0.3 * 0.2 + 0.7 * 0.4)
    assert found[2] == pytest.approx(0.3 * 0.4 + 0.7 * 0.9)
    assert found[0] == pytest.approx(0.2), "0.7 s of it are covered"
    assert found[3] is None, "0.3 s are too few to speak for a second"
    assert windows(rows, "tx")[1] == pytest.approx((0.3 * 0.2 + 0.7 * 0.4) / 4)


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(S // 5, 3 * S), min_size=3, max_size=30),
    level=st.floats(0, 1),
)
def test_a_steady_link_is_steady_however_it_is_read(lengths: list[int], level: float) -> None:
    end_us, rows = 2 * S, []
    for length in lengths:
        end_us += length
        rows.append(reading(end_us, level, length))
    known = [value for value in windows(rows).values() if value is not None]
    assert known
    assert known == [pytest.approx(level, abs=1e-6)] * len(known)


def test_an_unmeasured_stretch_is_unknown_and_a_very_long_reading_says_nothing() -> None:
    rows = [reading(2 * S, None), reading(3 * S, 0.5), reading(40 * S, 0.9, 30 * S)]
    assert windows(rows) == {1: None, 2: pytest.approx(0.5)}


def exact(second: int, gaps_us: list[int], level: str) -> Rows:
    return [
        {"wall_us": second * S, "engine": 1, "level": level, "bucket": bucket_of(gap),
         "lower_bucket": bucket_of(gap) - 1, "observations": 1}
        for gap in gaps_us
    ]  # fmt: skip


def scraped(end_us: int, mean_us: int, count: int = 10, **more: object) -> dict[str, object]:
    return histogram(end_us, [count, 0], [80_000_000], family="itl_us", sum=mean_us * count, **more)


def excess(rows: dict[str, Rows]) -> list[tuple[Any, ...]]:
    return ask(
        rows,
        f"SELECT wall_us // {S}, level, figure, itl_us, excess_us FROM itl_excess(0, {LAST})",
    )


def test_the_best_level_of_an_engine_counts_alone() -> None:
    rows = {
        "itl_1s": [
            *exact(1, [10_000], "gap"), *exact(1, [20_000], "step"), *exact(2, [20_000], "step"),
        ],
        "engine_histogram": [scraped(2 * S, 30_000)],
    }  # fmt: skip
    assert [(level, figure) for _, level, figure, *_ in excess(rows)] == [("gap", "p99")]
    rows["itl_1s"] = exact(1, [20_000], "step") + exact(2, [20_000], "step")
    assert [level for _, level, *_ in excess(rows)] == ["step", "step"]
    rows["itl_1s"] = exact(1, [20_000], "scrape")
    ((_, level, figure, itl_us, above),) = excess(rows)
    assert (level, figure, itl_us, above) == ("scrape", "mean", 30_000, 0)


def test_a_scrape_counts_by_its_share_and_by_its_observations() -> None:
    """Scrapes end at 1.5 and 2.5 s; half of each lies in window 1, with 10 and 30 observations."""
    rows = {"engine_histogram": [
        scraped(15 * S // 10, 20_000, 10), scraped(25 * S // 10, 40_000, 30),
    ]}  # fmt: skip
    found = {second: itl_us for second, _, _, itl_us, _ in excess(rows)}
    assert found == {0: 20_000, 1: pytest.approx(35_000), 2: 40_000}


def test_a_first_scrape_and_one_without_a_sum_are_left_out() -> None:
    rows = {"engine_histogram": [
        scraped(S, 20_000, window_us=None), scraped(2 * S, 20_000) | {"sum": None},
        scraped(3 * S, 20_000) | {"family": "ttft_us"},
    ]}  # fmt: skip
    assert excess(rows) == []


@settings(max_examples=25)
@given(means=st.lists(st.integers(1_000, 900_000), min_size=1, max_size=20))
def test_half_of_the_windows_lie_above_the_median(means: list[int]) -> None:
    rows = [scraped((place + 2) * S, mean) for place, mean in enumerate(means)]
    above = sorted(value for *_, value in excess({"engine_histogram": rows}))
    middle = (above[(len(above) - 1) // 2] + above[len(above) // 2]) / 2
    assert middle == pytest.approx(0, abs=1e-6)
    assert max(above) - min(above) == pytest.approx(max(means) - min(means))


def copy(arrival_us: int, service_us: int | None, **more: object) -> dict[str, object]:
    """Return a copy queued at a moment; its row is written 50 ms later, by another clock."""
    return {
        "wall_us": arrival_us + 50_000, "mono_us": arrival_us + 50_000 - 7 * S, "engine": 1,
        "device": 7, "direction": "rx", "bytes": 1_000_000, "enqueue_mono_us": arrival_us - 7 * S,
        "complete_mono_us": arrival_us, "service_us": service_us, **more,
    }  # fmt: skip


def backlog(rows: Rows) -> dict[int, int]:
    found = ask({"copy_event": rows}, f"SELECT wall_us, backlog_us FROM copy_backlog(0, {LAST})")
    return {wall // S: value for wall, value in found}


def queue_of(jobs: list[tuple[int, int]]) -> dict[int, int]:
    """Return the longest backlog per second of a queue that is served job by job."""
    free_at = 0
    longest: dict[int, int] = {}
    for arrival, service in sorted(jobs):
        free_at = max(free_at, arrival) + service
        for second in range(arrival // S, math.ceil(free_at / S)):
            left = free_at - max(arrival, second * S)
            longest[second] = max(longest.get(second, 0), left)
    return longest


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(10 * S, 20 * S), st.integers(1, 4 * S)), min_size=1, max_size=25)
)
def test_the_backlog_is_that_of_a_queue_served_in_order(jobs: list[tuple[int, int]]) -> None:
    assert backlog([copy(arrival, service) for arrival, service in jobs]) == queue_of(jobs)


def test_a_burst_waits_and_its_rest_is_seen_in_the_next_second() -> None:
    rows = [copy(10 * S, 600_000), copy(10 * S + 1, 700_000)]
    assert backlog(rows) == {10: 600_000 + 700_000 - 1, 11: 300_000}


def test_directions_and_gpus_queue_apart_and_unknown_times_follow_from_the_ceiling() -> None:
    rows = {
        "copy_event": [
            copy(10 * S, 500_000), copy(10 * S, 400_000, direction="tx"),
            copy(10 * S, 300_000, device=8), copy(20 * S, None), copy(20 * S, None, device=8),
        ],
        "gpu_link": [reading(9 * S, 0.5, rx_ceiling_bytes_per_second=4_000_000.0)],
    }  # fmt: skip
    found = ask(rows, f"SELECT device, direction, wall_us // {S}, backlog_us "
                      f"FROM copy_backlog(0, {LAST}) ORDER BY ALL")  # fmt: skip
    assert found == [
        (7, "rx", 10, 500_000), (7, "rx", 20, 250_000), (7, "tx", 10, 400_000),
        (8, "rx", 10, 300_000),
    ]  # fmt: skip


def test_own_copies_are_seconds_per_second_where_the_engine_counts_them() -> None:
    rows = {"engine_metrics": [
        scrape(2 * S, load_time_us_delta=300_000, store_time_us_delta=None),
        scrape(5 * S // 2 + S, window_us=3 * S // 2, load_time_us_delta=600_000),
    ]}  # fmt: skip
    found = ask(rows, f"SELECT wall_us // {S}, direction, copy_ratio "
                      f"FROM kv_copy_windows(0, {LAST})")  # fmt: skip
    assert found == [
        (1, "rx", pytest.approx(0.3)), (2, "rx", pytest.approx(0.4)),
        (3, "rx", pytest.approx(0.4)),
    ]  # fmt: skip


def test_everything_meets_in_the_same_window() -> None:
    """Scrapes, readings and copies are 300 ms apart and still speak of the same seconds."""
    ends = range(11, 15)
    rows = {
        "engine_histogram": [scraped(end * S, 20_000 + 1_000 * end) for end in ends],
        "engine_metrics": [scrape(end * S, load_time_us_delta=100_000) for end in ends],
        "gpu_link": [
            one
            for end in ends
            for one in (reading(end * S + 300_000, 0.5), reading(end * S, 0.1, device=8))
        ],
        "copy_event": [copy(12 * S + 10, 200_000)],
    }  # fmt: skip
    found = ask(rows, f"SELECT wall_us // {S}, device, direction, excess_us, saturation_ratio, "
                      f"backlog_us, copy_ratio FROM copy_contention(0, {LAST}) "
                      "WHERE direction = 'rx'")  # fmt: skip
    busy = {second: row for second, device, _, *row in found if device == 7}
    assert busy == {
        10: [-1_500, pytest.approx(0.5), 0, pytest.approx(0.1)],
        11: [-500, pytest.approx(0.5), 0, pytest.approx(0.1)],
        12: [500, pytest.approx(0.5), 200_000, pytest.approx(0.1)],
        13: [1_500, pytest.approx(0.5), 0, pytest.approx(0.1)],
    }
    other = {second: row[2] for second, device, _, *row in found if device == 8}
    assert other == dict.fromkeys(range(10, 14)), "no copy of that GPU is known: not 0, unknown"


def test_an_engine_alone_and_a_link_alone_give_no_row() -> None:
    assert ask({"engine_histogram": [scraped(2 * S, 1_000)]},
               f"SELECT * FROM copy_contention(0, {LAST})") == []  # fmt: skip
    assert ask({"gpu_link": [reading(2 * S, 0.5)]},
               f"SELECT * FROM copy_contention(0, {LAST})") == []  # fmt: skip
