from __future__ import annotations

import math
import subprocess

import pyarrow as pa
import pytest

from stallscope import schema
from stallscope.exposition import families
from tests.stallscope.exposed import SECOND, Shown, health

_ENGINE = {"engine": "vllm-8000", "model": "qwen", "rank": "0"}


def test_microseconds_become_seconds() -> None:
    shown = Shown()
    shown.see("block_device", {"device": 1, "read_await_mean_us": 5, "write_await_mean_us": 2_000})
    name = "stallscope_nvme_latency_mean_seconds"
    assert shown.value(name, device="nvme0n1", op="read") == 0.000005
    assert shown.value(name, device="nvme0n1", op="write") == 0.002


def test_a_missing_value_has_no_sample() -> None:
    shown = Shown()
    shown.see("block_device", {"device": 1, "read_await_mean_us": None, "queue_mean": math.nan})
    assert shown.values("stallscope_nvme_latency_mean_seconds") == {}
    assert shown.values("stallscope_nvme_queue_mean") == {}


def test_zero_is_a_value() -> None:
    shown = Shown()
    shown.see("block_device", {"device": 1, "in_flight": 0})
    assert shown.value("stallscope_nvme_io_in_flight", device="nvme0n1") == 0


def test_only_the_latest_row_of_an_entity_is_shown() -> None:
    shown = Shown()
    shown.see("block_device", {"device": 1, "in_flight": 3}, {"device": 2, "in_flight": 4})
    shown.see("block_device", {"device": 1, "in_flight": None})
    assert shown.value("stallscope_nvme_io_in_flight", device="nvme0n1") is None
    assert shown.value("stallscope_nvme_io_in_flight", device="nvme1n1") == 4


@pytest.mark.parametrize(
    ("interval_us", "shown_for_us"),
    [(10 * SECOND, 30 * SECOND), (SECOND, 3 * SECOND), (100_000, SECOND)],
)
def test_a_series_ends_after_three_intervals(interval_us: int, shown_for_us: int) -> None:
    shown = Shown()
    shown.see("block_device", {"device": 1, "in_flight": 3}, interval_us=interval_us)
    shown.clock.mono_us += shown_for_us
    assert shown.values("stallscope_nvme_io_in_flight") != {}
    shown.clock.mono_us += 1
    assert shown.values("stallscope_nvme_io_in_flight") == {}
    shown.see("block_device", {"device": 1, "in_flight": 5}, interval_us=interval_us)
    assert shown.value("stallscope_nvme_io_in_flight", device="nvme0n1") == 5


def test_a_row_is_as_old_as_it_says() -> None:
    shown = Shown()
    old = {"device": 1, "in_flight": 3, "mono_us": shown.clock.mono_us - 4 * SECOND}
    shown.see("block_device", old)
    assert shown.values("stallscope_nvme_io_in_flight") == {}


def test_an_id_without_facts_is_shown_as_the_id() -> None:
    shown = Shown()
    shown.see("block_device", {"device": 77, "in_flight": 1})
    assert shown.value("stallscope_nvme_io_in_flight", device="77") == 1


def test_data_parallel_ranks_are_two_series() -> None:
    shown = Shown()
    shown.see("engine_metrics", {"engine": 1, "running": 7.0}, {"engine": 2, "running": 9.0})
    running = shown.values("stallscope_engine_requests")
    assert sorted(running.values()) == [7, 9]
    assert shown.value("stallscope_engine_requests", **_ENGINE, state="running") == 7


def test_processes_of_one_engine_share_a_series_and_the_worst_counts() -> None:
    shown = Shown()
    rows = [
        {"engine": 1, "pid": pid, "thread": "worker", "run_delay_ratio": ratio}
        for pid, ratio in ((10, 0.1), (11, 0.4), (12, 0.2))
    ]
    shown.see("engine_process", *rows)
    assert shown.values("stallscope_engine_run_delay_ratio") == {
        frozenset({**_ENGINE, "thread": "worker"}.items()): 0.4
    }


def test_counters_are_exposed_as_the_engine_counts() -> None:
    shown = Shown()
    shown.see("engine_metrics", {"engine": 1, "prompt_tokens_total": 2**53})
    assert shown.value("stallscope_engine_prompt_tokens_total", **_ENGINE) == 2.0**53
    assert "# TYPE stallscope_engine_prompt_tokens_total counter" in shown.text()


def test_record_batches_are_shown_like_rows() -> None:
    shown = Shown()
    row = {"device": 1, "in_flight": 6, "mono_us": shown.clock.mono_us}
    shown.page.observe("block_device", pa.RecordBatch.from_pylist([row]), SECOND)
    assert shown.value("stallscope_nvme_io_in_flight", device="nvme0n1") == 6


def test_tables_that_are_not_shown_are_not_even_looked_at() -> None:
    shown = Shown()
    shown.page.observe("token_gap", [{"no such": "column"}], SECOND)
    assert shown.text() == Shown().text()


def test_a_source_is_up_while_it_delivers() -> None:
    shown = Shown()
    states = ["working", "partial", "late", "failed", "hung", "not_found"]
    shown.see("source_health", *(health(state, state) for state in states))
    up = shown.values("stallscope_collector_source_up")
    assert {dict(labels)["source"]: value for labels, value in up.items()} == {
        "working": 1,
        "partial": 1,
        "late": 1,
        "failed": 0,
        "hung": 0,
        "not_found": 0,
    }


def test_only_the_state_a_source_is_in_is_there() -> None:
    shown = Shown()
    shown.see("source_health", health("engine_metrics"))
    shown.see("source_health", health("engine_metrics", "gone"))
    assert shown.values("stallscope_collector_source_state") == {
        frozenset({"source": "engine_metrics", "state": "gone"}.items()): 1
    }


def test_what_sources_lost_adds_up_and_stays() -> None:
    shown = Shown()
    for _ in range(3):
        shown.see("source_health", health("a", rejects=2, failures=1, dropped=5, cpu_us=500_000))
    shown.clock.mono_us += 60 * SECOND
    assert shown.value("stallscope_collector_rejects_total", source="a") == 6
    assert shown.value("stallscope_collector_failures_total", source="a") == 3
    assert shown.value("stallscope_collector_dropped_total", source="a") == 15
    assert shown.value("stallscope_collector_cpu_seconds_total", source="a") == 1.5


def test_a_cost_that_is_not_known_is_not_zero() -> None:
    shown = Shown()
    shown.see("source_health", health("storage", dropped=0, cpu_us=None))
    assert shown.value("stallscope_collector_dropped_total", source="storage") == 0
    assert shown.values("stallscope_collector_cpu_seconds_total") == {}


def test_the_build_names_versions_and_host() -> None:
    labels = {"version": "0.1.0", "schema_version": "1", "host": "gpu-17"}
    assert Shown().value("stallscope_build_info", **labels) == 1


def test_the_formats_are_chosen_by_the_accept_header() -> None:
    shown = Shown()
    shown.see("source_health", health("a", rejects=1))
    plain, open_metrics = shown.text(), shown.text("application/openmetrics-text;version=1.0.0")
    assert plain.endswith("\n")
    assert "# EOF" not in plain
    assert open_metrics.endswith("\n# EOF\n")
    assert "# TYPE stallscope_collector_rejects counter\n" in open_metrics
    assert 'stallscope_collector_rejects_total{source="a"} 1.0\n' in open_metrics


@pytest.mark.parametrize("accept", ["", "*/*", "nonsense;;;=,", "text/html", "application/json"])
def test_any_other_accept_header_gets_the_plain_text(accept: str) -> None:
    assert Shown().text(accept) == Shown().text("")


def test_no_name_has_a_colon_and_every_name_has_our_prefix() -> None:
    for family in (*families.DERIVED, *families.column_families()):
        assert family.name.startswith("stallscope_")
        assert ":" not in family.name
        assert (family.kind == "counter") == family.name.endswith("_total")
        assert "pid" not in family.labels


def test_every_metric_of_the_schema_is_shown() -> None:
    in_schema = {
        column.metric.name
        for table in schema.TABLES.values()
        for column in table.columns
        if column.metric is not None
    }
    assert in_schema == {family.name for family in families.column_families()}


def test_what_feeds_a_metric_agrees_on_kind_and_labels() -> None:
    for family in families.column_families():
        assert {feed.metric.kind for feed in family.feeds} == {family.kind}
        labels = {
            (*(label.name for label in feed.labels), *dict(feed.metric.labels))
            for feed in family.feeds
        }
        assert labels == {family.labels}
        assert len(set(family.labels)) == len(family.labels)


def test_no_two_columns_feed_the_same_series() -> None:
    for family in families.column_families():
        told = [feed.metric.labels for feed in family.feeds]
        assert len(set(told)) == len(told)


def test_labels_and_values_come_from_columns_that_there_are() -> None:
    for family in families.column_families():
        for feed in family.feeds:
            columns = {column.name for column in feed.table.columns}
            assert {feed.column.name, *(label.column for label in feed.labels)} <= columns
    for table, column in families.ROW_LABELS:
        assert schema.table(table).column(column).metric is not None


def test_help_speaks_neither_of_null_nor_of_one_of_several_columns() -> None:
    for family in families.column_families():
        assert "NULL" not in family.meaning
        if len(family.feeds) > 1:
            assert family.meaning not in {feed.column.meaning for feed in family.feeds}


def test_a_counter_is_a_total_or_the_sum_of_growth() -> None:
    """A column of growth that is no sum per minute either would be a gauge by mistake."""
    for family in families.column_families():
        for feed in family.feeds:
            if feed.adds_up:
                assert feed.column.name in feed.table.sums
                assert feed.column.kind.value.startswith(("int", "uint"))


@pytest.mark.tools("promtool")
def test_promtool_finds_nothing_to_say() -> None:
    shown = Shown()
    shown.see("block_device", {"device": 1, "read_await_mean_us": 9, "in_flight": 1})
    shown.see("engine_metrics", {"engine": 1, "running": 1.0, "prompt_tokens_total": 5})
    shown.see("host_pressure", {"scope": "system", "cpu_some_ratio": 0.5})
    shown.see("source_health", health("a", rejects=1, lag_us=4, resident_bytes=1))
    link = {"device": 3, "state": "ok", "method": "gpm_cumulative", "window_us": 1_000_000}
    shown.see("gpu_link", {**link, "rx_bytes": 5, "call_us": 7, "link_downtrained": False})
    shown.see("gpu_state", {"device": 3, "replays": 0, "memory_used_bytes": 1, "call_us": 9})
    histogram = {"family": "itl_us", "bounds": [500], "counts": [1, 2], "sum": 3_000}
    shown.see("engine_histogram", {"engine": 1, **histogram})
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=shown.text(),
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
