"""Pages of real vLLM servers, and synthetic ones in their format: our figures must be theirs."""

from __future__ import annotations

import pytest

from collector.edges.promtext import parse
from tests.collector.engine_pages import CAPTURES, Pages, flags


def test_after_minus_idle_is_what_the_clients_did() -> None:
    pages = Pages()
    idle = pages.feed_capture("metrics_idle.txt")
    assert (idle["prompt_tokens_total"], idle["running"]) == (0, 0)
    assert pages.families() == []  # no requests: nothing, not 0 ms
    row = pages.feed_capture("metrics_after_load.txt", after_s=60)
    assert row["requests_all_delta"] == 49
    assert row["requests_length_delta"] == 49
    assert row["prompt_tokens_delta"] == 14_464
    assert row["generation_tokens_delta"] == 6_208
    assert (row["prefix_hits_delta"], row["prefix_queries_delta"]) == (256, 14_464)
    assert pages.histogram("ttft_us")["observations"] == 49
    itl = pages.histogram("itl_us")
    assert itl["observations"] == 6_159 == 6_208 - 49
    assert (row["restarted"], row["partial"], row["rejected_lines"]) == (False, False, 0)
    assert flags(row) == set()


def test_quantiles_of_itl_lie_where_the_plugin_measured_them() -> None:
    pages = Pages()
    pages.feed_capture("metrics_idle.txt")
    pages.feed_capture("metrics_after_load.txt")
    row = pages.histogram("itl_us")
    counts, bounds = row["counts"], row["bounds"]
    assert isinstance(counts, list)
    assert isinstance(bounds, list)

    def bucket(q: float) -> tuple[int, int]:
        seen = 0
        for place, count in enumerate(counts):
            seen += count
            if seen >= q * sum(counts):
                return bounds[place - 1], bounds[place]
        raise AssertionError

    assert bucket(0.5) == (10_000, 25_000)
    assert bucket(0.99) == (75_000, 100_000)  # the plugin says 80.4 ms


def test_under_load() -> None:
    pages = Pages()
    pages.feed_capture("metrics_idle.txt")
    row = pages.feed_capture("metrics_under_load.txt")
    assert (row["running"], row["generation_tokens_total"]) == (16, 5_333)
    assert pages.histogram("itl_us")["observations"] == 5_284


def born(name: str) -> Pages:
    """Return pages that saw the engine absent, then this capture: all it counted is growth."""
    page = parse((CAPTURES / name).read_bytes(), "")
    start = next(
        (value for series, value in page.values.items() if series.name.startswith("process_start")),
        None,
    )
    pages = Pages()
    if start is not None:
        pages.clock.wall_offset_us = round((start - 5) * 1_000_000) - pages.clock.mono_us
    pages.refuse()
    pages.feed_capture(name, after_s=300)
    return pages


@pytest.mark.parametrize(
    ("name", "itl", "requests"),
    [
        ("metrics_run2_custom_buckets_mfu_kvmetrics.txt", 6_096, 48),
        ("metrics_preemption.txt", 8_990, 10),
        ("metrics_prefill_interference_preempt.txt", 4_095, 15),
    ],
)
def test_an_engine_seen_from_its_start_on(name: str, itl: int, requests: int) -> None:
    pages = born(name)
    assert pages.histogram("itl_us")["observations"] == itl
    assert pages.rows["engine_metrics"][0]["requests_all_delta"] == requests


def test_custom_buckets_have_their_own_bounds() -> None:
    row = born("metrics_run2_custom_buckets_mfu_kvmetrics.txt").histogram("itl_us")
    assert row["sum"] == pytest.approx(31_620_000, abs=10_000)
    assert isinstance(row["bounds"], list)
    assert row["bounds"][0] < 10_000  # finer than the default list, which begins there


def test_preemptions() -> None:
    (row,) = born("metrics_preemption.txt").rows["engine_metrics"]
    assert (row["preemptions_delta"], row["generation_tokens_delta"]) == (5, 9_000)
    (row,) = born("metrics_prefill_interference_preempt.txt").rows["engine_metrics"]
    assert (row["preemptions_delta"], row["prompt_tokens_delta"]) == (0, 13_812)


def totals(name: str, family: str) -> list[float]:
    """Return the +Inf bucket of a family for each rank, straight from the page."""
    page = parse((CAPTURES / name).read_bytes(), "")
    return [
        value or 0
        for series, value in sorted(page.values.items(), key=lambda item: item[0].label("engine"))
        if series.name == f"{family}_bucket" and series.label("le") == "+Inf"
    ]


@pytest.mark.parametrize("name", ["metrics_api_server_count2.txt", "metrics_rust_frontend.txt"])
def test_pages_without_any_identity_say_so(name: str) -> None:
    pages = Pages()
    row = pages.feed_capture(name)
    assert row["prompt_tokens_total"] == 4_800
    assert flags(row) == {"identity_unknown"}
    assert totals(name, "vllm:inter_token_latency_seconds") == [24 * 63]
    again = pages.feed_capture(name)
    assert again["prompt_tokens_delta"] == 0


def test_two_ranks() -> None:
    pages = Pages()
    pages.feed_capture("metrics_dp2.txt")
    rows = pages.rows["engine_metrics"]
    assert [row["requests_all_total"] for row in rows] == [14, 10]
    assert [row["prompt_tokens_total"] for row in rows] == [2_800, 2_000]
    assert [row["kv_usage_ratio"] for row in rows] == [0, 0]
    assert totals("metrics_dp2.txt", "vllm:inter_token_latency_seconds") == [882, 630]
    facts = [pages.engine_of(row["engine"]) for row in rows]
    assert [(one["rank"], one["model"]) for one in facts] == [
        ("0", "tiny-qwen2"),
        ("1", "tiny-qwen2"),
    ]
    assert all(one["config_hash"] for one in facts)


def test_native_offload_counts_its_bytes_once_though_they_stand_under_two_names() -> None:
    pages = born("metrics_synthetic_native.txt")
    (row,) = pages.rows["engine_metrics"]
    assert (row["load_bytes_total"], row["load_time_us_total"]) == (150_994_944, 8_900)
    assert (row["store_bytes_total"], row["store_time_us_total"]) == (33_554_432, 2_200)
    assert (row["fetch_waiting"], row["fetch_in_progress"], row["fetch_completed"]) == (1, 2, 0)
    assert row["offload_read_usage_ratio"] == pytest.approx(0.31)
    assert row["offload_write_usage_ratio"] == pytest.approx(0.1)


def test_tiers_add_up_and_usage_above_one_is_flagged() -> None:
    row = Pages().feed_capture("metrics_synthetic_tiering.txt")
    assert (row["tier_read_bytes_total"], row["tier_read_time_us_total"]) == (7, 7_000_000)
    assert (row["tier_write_bytes_total"], row["active_promotions"]) == (7, 2)
    assert row["offload_read_usage_ratio"] == 2.0
    assert "usage_above_one" in flags(row)


def test_the_simple_connector_gives_no_bytes_and_no_times() -> None:
    row = Pages().feed_capture("metrics_synthetic_simple.txt")
    assert not {"load_bytes_total", "load_time_us_total", "store_bytes_total"} & row.keys()


def test_nixl() -> None:
    row = Pages().feed_capture("metrics_synthetic_nixl.txt")
    assert row["transfer_failures_total"] == 1
    name = "metrics_synthetic_nixl.txt"
    assert totals(name, "vllm:nixl_xfer_time_seconds") == [2]


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.txt")), ids=lambda path: path.stem)
def test_every_capture_is_read_without_a_reject(path: object) -> None:
    pages = Pages()
    row = pages.feed_capture(str(path))
    assert (row["rejected_lines"], row["duplicates"], row["partial"]) == (0, 0, False)
