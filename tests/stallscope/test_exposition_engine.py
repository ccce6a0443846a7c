from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.catalog import library_statements
from stallscope.columns import SQL
from stallscope.exposition.hit_ratios import HitRatios
from stallscope.schema import table
from tests.stallscope.exposed import SECOND, Shown

_ENGINE = {"engine": "vllm-8000", "model": "qwen", "rank": "0"}
_BUCKET = "stallscope_itl_seconds_bucket"


def _itl(counts: list[int], sum_us: int | None = 0, **columns: object) -> dict[str, object]:
    bounds = {"bounds": [10_000, 25_000], "counts": counts, "sum": sum_us}
    return {"engine": 1, "family": "itl_us", **bounds, **columns}


def _alive(shown: Shown) -> None:
    shown.see("engine_metrics", {"engine": 1, "running": 1.0})


def test_windows_add_up_to_a_cumulative_histogram_in_the_engines_buckets() -> None:
    shown = Shown()
    _alive(shown)
    shown.see("engine_histogram", _itl([3, 2, 1], 90_000))
    shown.see("engine_histogram", _itl([1, 0, 0], 4_000))
    assert [shown.value(_BUCKET, **_ENGINE, le=le) for le in ("0.01", "0.025", "+Inf")] == [4, 6, 7]
    assert shown.value("stallscope_itl_seconds_count", **_ENGINE) == 7
    assert shown.value("stallscope_itl_seconds_sum", **_ENGINE) == 0.094


def test_bounds_below_a_millisecond_are_kept() -> None:
    shown = Shown()
    _alive(shown)
    shown.see("engine_histogram", _itl([5, 0, 0], bounds=[500, 1_000]))
    assert shown.value(_BUCKET, **_ENGINE, le="0.0005") == 5


def test_other_families_are_not_mixed_in() -> None:
    shown = Shown()
    _alive(shown)
    shown.see("engine_histogram", _itl([5, 0, 0], family="tpot_us"))
    assert shown.values(_BUCKET) == {}


def test_other_bounds_start_again_from_zero() -> None:
    shown = Shown()
    _alive(shown)
    shown.see("engine_histogram", _itl([5, 0, 0]))
    shown.see("engine_histogram", _itl([1, 1], bounds=[1_000]))
    assert shown.value(_BUCKET, **_ENGINE, le="+Inf") == 2
    assert shown.value(_BUCKET, **_ENGINE, le="0.01") is None


def test_a_window_without_a_sum_takes_the_sum_away() -> None:
    shown = Shown()
    _alive(shown)
    shown.see("engine_histogram", _itl([1, 0, 0], 4_000))
    shown.see("engine_histogram", _itl([1, 0, 0], None))
    shown.see("engine_histogram", _itl([1, 0, 0], 4_000))
    assert shown.values("stallscope_itl_seconds_sum") == {}
    assert shown.value(_BUCKET, **_ENGINE, le="+Inf") == 3


def test_an_engine_that_is_gone_takes_its_histogram_along_and_brings_it_back() -> None:
    shown = Shown()
    _alive(shown)
    shown.see("engine_histogram", _itl([1, 0, 0]))
    shown.clock.mono_us += 3 * SECOND
    assert shown.value(_BUCKET, **_ENGINE, le="+Inf") == 1  # idle, not gone
    shown.clock.mono_us += SECOND
    assert shown.values(_BUCKET) == {}
    _alive(shown)
    assert shown.value(_BUCKET, **_ENGINE, le="+Inf") == 1


def _ratio(shown: Shown, tier: str) -> float | None:
    return shown.value("stallscope_kv_hit_ratio", **_ENGINE, tier=tier)


def _see_hits(shown: Shown, hits: int | None, queries: int | None) -> None:
    shown.see(
        "engine_metrics",
        {"engine": 1, "prefix_hits_delta": hits, "prefix_queries_delta": queries},
    )


def test_a_hit_ratio_weighs_scrapes_by_their_queries() -> None:
    shown = Shown()
    _see_hits(shown, 90, 100)
    _see_hits(shown, 0, 900)
    assert _ratio(shown, "device") == 0.09


def test_no_hits_is_zero_and_no_queries_is_absent() -> None:
    shown = Shown()
    _see_hits(shown, 0, 5_000)
    assert _ratio(shown, "device") == 0
    shown = Shown()
    _see_hits(shown, 0, 0)
    _see_hits(shown, None, None)
    assert _ratio(shown, "device") is None
    assert _ratio(shown, "host") is None


def test_a_hit_ratio_forgets_after_a_minute() -> None:
    shown = Shown()
    _see_hits(shown, 100, 100)
    shown.clock.mono_us += 59 * SECOND
    _see_hits(shown, 0, 100)
    assert _ratio(shown, "device") == 0.5
    shown.clock.mono_us += SECOND
    assert _ratio(shown, "device") == 0


def test_more_hits_than_queries_is_no_figure() -> None:
    shown = Shown()
    _see_hits(shown, 110, 100)
    assert _ratio(shown, "device") is None


def test_counts_by_tier_win_over_the_old_cache_counters() -> None:
    shown = Shown()
    shown.see(
        "engine_metrics",
        {
            "engine": 1,
            "prompt_tokens_delta": 200,
            "cached_device_delta": 50,
            "cached_host_delta": 20,
            "prefix_hits_delta": 90,
            "prefix_queries_delta": 100,
            "external_hits_delta": 1,
            "external_queries_delta": 4,
        },
    )
    assert (_ratio(shown, "device"), _ratio(shown, "host")) == (0.25, 0.1)
    assert _ratio(shown, "external") == 0.25


_COLUMNS = (
    "prompt_tokens_delta",
    "cached_device_delta",
    "cached_host_delta",
    "cached_external_delta",
    "prefix_hits_delta",
    "prefix_queries_delta",
    "external_hits_delta",
    "external_queries_delta",
)
_OFFERED = st.sets(st.sampled_from(_COLUMNS))


@pytest.fixture(scope="module")
def lake() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    columns = ", ".join(
        f"{column.name} {SQL[column.kind]}" for column in table("engine_metrics").columns
    )
    for name in ("engine_metrics", "engine_metrics_1m"):
        connection.execute(f"CREATE TABLE {name} ({columns})")
    for statement in library_statements("time", "kv_hits"):
        connection.execute(statement)
    return connection


@given(offered=_OFFERED, scrapes=st.lists(st.lists(st.integers(0, 50), min_size=8, max_size=8)))
def test_the_page_and_sql_give_the_same_ratio(
    lake: duckdb.DuckDBPyConnection, offered: set[str], scrapes: list[list[int]]
) -> None:
    ratios = HitRatios()
    lake.execute("DELETE FROM engine_metrics")
    for second, values in enumerate(scrapes[:50]):
        deltas = {
            name: value for name, value in zip(_COLUMNS, values, strict=True) if name in offered
        }
        ratios.add([{"engine": 1, "mono_us": second * SECOND, **deltas}])
        names = ", ".join(["wall_us", "engine", *deltas])
        marks = ", ".join("?" * (len(deltas) + 2))
        lake.execute(
            f"INSERT INTO engine_metrics ({names}) VALUES ({marks})",
            [second * SECOND, 1, *deltas.values()],
        )
    rows = lake.execute(
        "SELECT tier, hit_ratio FROM kv_hits(0, 60000000) WHERE hit_ratio <= 1"
    ).fetchall()
    assert ratios.of(1, 59 * SECOND) == pytest.approx(dict(rows))
