from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analytics import memory_lake
from tests.analytics.memory_lake import S, scrape

lake_of = partial(memory_lake.lake_of, others=("engine_metrics",), modules=("kv_hits", "kv_hit"))

NUMBER = st.one_of(st.none(), st.integers(0, 1_000))


def hits_of(*scrapes: Mapping[str, object]) -> list[tuple[Any, ...]]:
    rows = [scrape(i * S, **one) for i, one in enumerate(scrapes)]
    with lake_of({"engine_metrics": rows}) as lake:
        return lake.execute(
            "SELECT tier, hits, queries, hit_ratio, basis, flag FROM kv_hits(0, 1000000000) "
            "ORDER BY tier"
        ).fetchall()


def test_nothing_asked_is_unknown_and_nothing_found_is_zero() -> None:
    assert hits_of({"prefix_queries_delta": 0, "prefix_hits_delta": 0}) == [
        ("device", 0, 0, None, "cache counters", None)
    ]
    assert hits_of({"prefix_queries_delta": 5_000, "prefix_hits_delta": 0}) == [
        ("device", 0, 5_000, 0.0, "cache counters", None)
    ]


def test_more_hits_than_queries_are_shown_and_flagged() -> None:
    """An engine counts recomputed and retried tokens as hits (vllm-project/vllm#25780)."""
    assert hits_of({"prefix_queries_delta": 100, "prefix_hits_delta": 120}) == [
        ("device", 120, 100, 1.2, "cache counters", "hits exceed queries")
    ]


def test_the_gauge_of_the_engine_counts_for_nothing() -> None:
    """A hit-rate gauge that is stuck at 1 beside counters that say 400 of 1 000."""
    found = hits_of(
        {
            "hit_reported_ratio": 1.0,
            "external_queries_delta": 1_000,
            "external_hits_delta": 400,
        }
    )
    assert found == [("external", 400, 1_000, 0.4, "cache counters", None)]


def test_what_the_engine_does_not_count_has_no_row() -> None:
    assert hits_of({}) == []


def test_tiers_are_shares_of_all_prompt_tokens_where_the_engine_counts_them() -> None:
    found = hits_of(
        {
            "prompt_tokens_delta": 1_000,
            "cached_device_delta": 600,
            "cached_host_delta": 200,
            "cached_disk_delta": 0,
            "prefix_queries_delta": 900,
            "prefix_hits_delta": 300,
        }
    )
    assert [(tier, ratio, basis) for tier, _, _, ratio, basis, _ in found] == [
        ("device", 0.6, "prompt tokens"),
        ("disk", 0.0, "prompt tokens"),
        ("host", 0.2, "prompt tokens"),
    ]


def test_the_first_scrape_has_no_growth_and_spoils_no_ratio() -> None:
    first = {"prompt_tokens_delta": 700}
    second = {"prompt_tokens_delta": 100, "cached_device_delta": 50}
    assert hits_of(first, second) == [("device", 50, 100, 0.5, "prompt tokens", None)]


@given(scrapes=st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=12))
def test_windows_add_up_numerators_and_denominators(
    scrapes: list[tuple[int | None, int | None]],
) -> None:
    found = hits_of(
        *({"prefix_hits_delta": hits, "prefix_queries_delta": queries} for hits, queries in scrapes)
    )
    counted = [(hits, queries) for hits, queries in scrapes if hits is not None]
    if not counted:
        assert found == []
        return
    known = [queries for _, queries in counted if queries is not None]
    ((_, hits, queries, ratio, _, _),) = found
    assert hits == sum(hit for hit, _ in counted)
    assert queries == (sum(known) if known else None)
    if known and sum(known):
        assert ratio == pytest.approx(sum(hit for hit, _ in counted) / sum(known))
    else:
        assert ratio is None


def test_the_view_keeps_every_scrape_apart() -> None:
    rows = [
        scrape(S, prefix_queries_delta=10, prefix_hits_delta=5),
        scrape(2 * S, prefix_queries_delta=10, prefix_hits_delta=0),
    ]
    with lake_of({"engine_metrics": rows}) as lake:
        found = lake.execute("SELECT wall_us, hit_ratio FROM kv_hit ORDER BY wall_us").fetchall()
    assert found == [(S, 0.5), (2 * S, 0.0)]
