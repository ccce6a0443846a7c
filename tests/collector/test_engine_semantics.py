"""What engines mean by their names, versions, ranks and odd values."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from collector.engine_aliases import Alias, EngineKind, Role
from collector.engine_names import KINDS
from collector.engine_target import NoEngineError
from stallscope.tables.engine import ENGINE_COUNTERS, ENGINE_HISTOGRAM, ENGINE_METRICS
from tests.collector.engine_pages import LABELS, Pages, flags, histogram_text

START = "process_start_time_seconds 1.6e9\n"


def gauge(name: str, value: object, labels: str = LABELS) -> str:
    return f"{name}{{{labels}}} {value}\n"


def two(first: str, second: str) -> Mapping[str, object]:
    pages = Pages()
    pages.feed(START + first)
    return pages.feed(START + second)


class TestTheTableOfNames:
    def test_every_target_is_a_column_or_a_family(self) -> None:
        counters = {name for name, _, _ in ENGINE_COUNTERS}
        columns = {column.name for column in ENGINE_METRICS.columns}
        families = ENGINE_HISTOGRAM.column("family").meaning
        for kind in KINDS:
            for alias in kind.aliases:
                if alias.role is Role.BUCKET:
                    assert alias.target in families, alias
                elif alias.role is Role.COUNTER:
                    assert alias.target in counters, alias
                else:
                    assert alias.target in columns, alias

    def test_every_counter_column_is_fed_by_some_engine(self) -> None:
        fed = {alias.target for kind in KINDS for alias in kind.aliases}
        assert {name for name, _, _ in ENGINE_COUNTERS} <= fed

    def test_a_misspelt_spelling_is_refused_when_it_is_written(self) -> None:
        with pytest.raises(ValueError, match="not a spelling"):
            EngineKind("x", ("x:",), (Alias("a", Role.COUNT, ("x:y{broken",)),))


class TestOldAndNewNames:
    def test_usage_is_fed_from_either_name_and_never_from_both(self) -> None:
        old = gauge("vllm:gpu_cache_usage_perc", 0.4)
        new = gauge("vllm:kv_cache_usage_perc", 0.4)
        for page in (old, new, old + new, new + old):
            assert Pages().feed(page)["kv_usage_ratio"] == 0.4

    def test_the_new_name_wins(self) -> None:
        page = gauge("vllm:gpu_cache_usage_perc", 0.1) + gauge("vllm:kv_cache_usage_perc", 0.4)
        assert Pages().feed(page)["kv_usage_ratio"] == 0.4

    def test_counters_under_both_names_count_once(self) -> None:
        def page(count: int) -> str:
            return "".join(
                gauge(f"vllm:{old}prefix_cache_{what}", count)
                + gauge(f"vllm:{old}prefix_cache_{what.replace('_total', '_created')}", 1.6e9)
                for old in ("gpu_", "")
                for what in ("queries_total", "hits_total")
            )

        row = two(page(10), page(60))
        assert (row["prefix_queries_total"], row["prefix_queries_delta"]) == (60, 50)
        assert (row["prefix_hits_total"], row["prefix_hits_delta"]) == (60, 50)

    def test_itl_comes_from_the_old_family_only_where_the_new_one_is_missing(self) -> None:
        old, new = "vllm:time_per_output_token_seconds", "vllm:inter_token_latency_seconds"
        pages = Pages()
        none = {"0.01": 0, "+Inf": 0}
        pages.feed(START + histogram_text(old, none) + histogram_text(new, none))
        some = {"0.01": 3, "+Inf": 4}
        pages.feed(START + histogram_text(old, some) + histogram_text(new, some))
        assert pages.histogram("itl_us")["observations"] == 4
        pages = Pages()
        pages.feed(START + histogram_text(old, none))
        pages.feed(START + histogram_text(old, some))
        assert pages.histogram("itl_us")["observations"] == 4

    def test_the_mean_per_request_is_never_itl(self) -> None:
        name = "vllm:request_time_per_output_token_seconds"
        pages = Pages()
        pages.feed(START + histogram_text(name, {"0.01": 0, "+Inf": 0}))
        pages.feed(START + histogram_text(name, {"0.01": 1, "+Inf": 1}, 0.005))
        assert pages.families() == ["tpot_us"]

    def test_what_a_version_does_not_offer_is_missing_and_not_zero(self) -> None:
        row = Pages().feed(gauge("vllm:num_requests_running", 0))
        assert row["running"] == 0
        assert "swapped" not in row
        assert "cpu_kv_usage_ratio" not in row

    def test_a_counter_exported_by_its_declared_name_is_the_same(self) -> None:
        # Ray: no _total, prefix, worker labels that change at every restart
        def page(count: int, worker: str) -> str:
            labels = f'{LABELS},WorkerId="{worker}",SessionName="s"'
            return gauge("ray_vllm_generation_tokens", count, labels)

        pages = Pages()
        first = pages.feed(page(10, "aa"))
        second = pages.feed(page(15, "aa"))
        third = pages.feed(page(15, "bb"))
        assert second["generation_tokens_delta"] == 5
        assert first["engine"] == second["engine"] == third["engine"]


class TestValues:
    def test_minus_one_means_no_data(self) -> None:
        row = Pages().feed(
            gauge("vllm:gpu_prefix_cache_hit_rate", -1.0) + gauge("vllm:cpu_cache_usage_perc", -1.0)
        )
        assert "hit_reported_ratio" not in row
        assert "cpu_kv_usage_ratio" not in row

    def test_nan_means_no_data(self) -> None:
        row = Pages().feed("llamacpp:kv_cache_usage_ratio -nan\nllamacpp:requests_processing 0\n")
        assert "kv_usage_ratio" not in row
        assert row["running"] == 0

    @pytest.mark.parametrize("value", ["+Inf", "1e300", "nan", "-5"])
    def test_a_total_that_is_none_is_left_out(self, value: str) -> None:
        row = Pages().feed(gauge("vllm:prompt_tokens_total", value))
        assert "prompt_tokens_total" not in row

    def test_usage_above_one_is_kept_and_flagged(self) -> None:
        row = Pages().feed(gauge("vllm:kv_cache_usage_perc", 2.0))
        assert row["kv_usage_ratio"] == 2.0
        assert "usage_above_one" in flags(row)

    def test_hits_that_stay_zero_are_zero_per_cent(self) -> None:
        queries, hits = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
        row = two(gauge(queries, 0) + gauge(hits, 0), gauge(queries, 5_000) + gauge(hits, 0))
        assert (row["prefix_queries_delta"], row["prefix_hits_delta"]) == (5_000, 0)
        assert flags(row) == set()

    def test_more_hits_than_queries_are_marked(self) -> None:
        queries, hits = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
        row = two(gauge(queries, 1_000) + gauge(hits, 0), gauge(queries, 1_010) + gauge(hits, 20))
        assert row["prefix_hits_delta"] == 20
        assert "hits_exceed_queries" in flags(row)

    def test_hits_beside_preemptions_carry_a_note(self) -> None:
        def page(count: int, preempted: int) -> str:
            return (
                gauge("vllm:prefix_cache_queries_total", count)
                + gauge("vllm:prefix_cache_hits_total", count)
                + gauge("vllm:num_preemptions_total", preempted)
            )

        row = two(page(0, 0), page(100, 1))
        assert (row["prefix_queries_delta"], row["prefix_hits_delta"]) == (100, 100)
        assert flags(row) == {"hits_with_preemption"}

    def test_the_hit_rate_gauge_is_reported_and_the_counters_are_used(self) -> None:
        def page(asked: int, hit: int) -> str:
            labels = 'model_name="m",worker_id="0",role="worker"'
            return (
                gauge("vllm:num_requests_running", 1)
                + gauge("lmcache:retrieve_hit_rate", 1.0, labels)
                + gauge("lmcache:num_requested_tokens_total", asked, labels)
                + gauge("lmcache:num_hit_tokens_total", hit, labels)
            )

        row = two(page(0, 0), page(1_000, 400))
        assert row["hit_reported_ratio"] == 1.0
        assert (row["external_queries_delta"], row["external_hits_delta"]) == (1_000, 400)

    def test_workers_that_count_the_same_lookups_are_not_added(self) -> None:
        def page(asked: int) -> str:
            return gauge("vllm:num_requests_running", 1) + "".join(
                gauge(
                    "lmcache:num_requested_tokens_total",
                    asked * (rank + 1) / 4,  # read while they count: the last is the furthest
                    f'model_name="m",worker_id="{rank}"',
                )
                for rank in range(4)
            )

        assert two(page(0), page(1_000))["external_queries_delta"] == 1_000


class TestStaleGauges:
    @staticmethod
    def page(running: int, usage: float, generated: int) -> str:
        return (
            gauge("vllm:num_requests_running", running)
            + gauge("vllm:kv_cache_usage_perc", usage)
            + gauge("vllm:generation_tokens_total", generated)
        )

    def test_usage_above_zero_on_an_idle_engine_is_shown_and_flagged(self) -> None:
        row = two(self.page(0, 0.37, 100), self.page(0, 0.37, 100))
        assert (row["kv_usage_ratio"], row["running"]) == (pytest.approx(0.37), 0)
        assert flags(row) == {"gauges_stale"}

    def test_a_gauge_that_moves_or_a_step_counted_is_not_stale(self) -> None:
        assert flags(two(self.page(0, 0.37, 100), self.page(0, 0.38, 100))) == set()
        assert flags(two(self.page(3, 0.37, 100), self.page(3, 0.37, 101))) == set()

    def test_an_idle_engine_at_zero_is_not_stale(self) -> None:
        assert flags(two(self.page(0, 0, 100), self.page(0, 0, 100))) == set()

    def test_old_timestamps_are_flagged(self) -> None:
        pages = Pages()
        then_ms = round(pages.now_s * 1_000)
        line = f"vllm:num_requests_running{{{LABELS}}} 3 {then_ms}\n"
        assert "data_old" not in flags(pages.feed(line, after_s=5))
        assert "data_old" in flags(pages.feed(line, after_s=60))


class TestRanks:
    @staticmethod
    def page(*ranks: tuple[int, int, float]) -> str:
        return START + "".join(
            gauge("vllm:num_requests_running", running, f'engine="{rank}",model_name="m"')
            + gauge("vllm:kv_cache_usage_perc", usage, f'engine="{rank}",model_name="m"')
            for rank, running, usage in ranks
        )

    def test_every_rank_is_an_engine(self) -> None:
        pages = Pages()
        pages.feed(self.page((1, 9, 0.2), (0, 7, 0.9)))
        rows = pages.rows["engine_metrics"]
        assert [row["running"] for row in rows] == [7, 9]
        assert sum(float(str(row["running"])) for row in rows) == 16
        assert [row["kv_usage_ratio"] for row in rows] == [0.9, 0.2]  # per rank, never added
        names = [pages.engine_of(row["engine"])["name"] for row in rows]
        assert names == ["engine/0", "engine/1"]
        assert [pages.engine_of(row["engine"])["rank"] for row in rows] == ["0", "1"]

    def test_ten_ranks_or_more_are_ten_engines(self) -> None:
        pages = Pages()
        pages.feed(self.page(*((rank, rank, 0.5) for rank in range(12))))
        ranks = {pages.engine_of(row["engine"])["rank"] for row in pages.rows["engine_metrics"]}
        assert ranks == {str(rank) for rank in range(12)}

    def test_what_has_no_rank_goes_to_the_lowest_of_several_and_is_flagged(self) -> None:
        shared = gauge("vllm:admission_rejections_total", 4, 'model_name="m",reason="x"')
        shared += gauge("vllm:admission_rejections_total", 3, 'model_name="m",reason="y"')
        pages = Pages()
        pages.feed(self.page((0, 1, 0), (1, 1, 0)) + shared)
        low, high = pages.rows["engine_metrics"]
        assert low["admission_rejections_total"] == 7
        assert "shared_series" in flags(low)
        assert "admission_rejections_total" not in high
        assert "shared_series" not in flags(high)

    def test_with_one_rank_there_is_nothing_to_flag(self) -> None:
        shared = gauge("vllm:admission_rejections_total", 4, 'model_name="m",reason="x"')
        row = Pages().feed(self.page((0, 1, 0)) + shared)
        assert row["admission_rejections_total"] == 4
        assert "shared_series" not in flags(row)

    def test_an_engine_without_rank_labels_is_one_engine(self) -> None:
        page = gauge("vllm:num_requests_running", 2, 'model_name="m"')
        page += gauge("vllm:cache_config_info", 1, 'block_size="16"')
        pages = Pages()
        row = pages.feed(page)
        assert len(pages.rows["engine_metrics"]) == 1
        facts = pages.engine_of(row["engine"])
        assert (facts["rank"], facts["model"], facts["name"]) == ("", "m", "engine")
        assert facts["config_hash"] is not None

    def test_a_page_that_names_too_many_engines_is_not_read(self) -> None:
        with pytest.raises(NoEngineError, match="300 engines"):
            Pages().feed(self.page(*((rank, 0, 0) for rank in range(300))))


class TestOtherEngines:
    def test_sglang_early_and_late_names(self) -> None:
        labels = 'model_name="g",tp_rank="0",pp_rank="0",engine_type="unified"'
        early = gauge("sglang:queue_req", 3, 'name="g"')
        early += gauge("sglang:num_requests_running", 2, 'name="g"')
        late = gauge("sglang:num_queue_reqs", 3, labels) + gauge("sglang:token_usage", 0.5, labels)
        late += gauge("sglang:num_running_reqs", 2, labels)
        for page in (early, late):
            pages = Pages()
            row = pages.feed(page)
            assert (row["waiting"], row["running"]) == (3, 2)
            facts = pages.engine_of(row["engine"])
            assert (facts["kind"], facts["model"]) == ("sglang", "g")

    def test_sglang_workers_of_one_rank_count_once_and_pid_is_no_identity(self) -> None:
        def page(pid: int, count: int) -> str:
            return "".join(
                f'sglang:num_retracted_requests_total{{dp_rank="{rank}",model_name="g",'
                f'pid="{pid + worker}",tp_rank="{worker}"}} {count}\n'
                f'sglang:num_running_reqs{{dp_rank="{rank}",model_name="g",'
                f'pid="{pid + worker}",tp_rank="{worker}"}} 4\n'
                for rank in (1, 0)
                for worker in range(4)
            )

        pages = Pages()
        pages.feed(page(900, 10))
        before = [row["engine"] for row in pages.rows["engine_metrics"]]
        pages.feed(page(900, 12))
        assert [row["running"] for row in pages.rows["engine_metrics"]] == [4, 4]
        assert [row["preemptions_total"] for row in pages.rows["engine_metrics"]] == [12, 12]
        assert [row["preemptions_delta"] for row in pages.rows["engine_metrics"]] == [2, 2]
        pages.feed(page(2_000, 1))
        assert [row["engine"] for row in pages.rows["engine_metrics"]] == before

    def test_sglang_cache_tiers(self) -> None:
        def page(device: int, host: int, disk: int) -> str:
            tiers = {"device": device, "host": host, "storage_file": disk}
            return 'sglang:prompt_tokens_total{model_name="g"} 1000\n' + "".join(
                f'sglang:cached_tokens_total{{model_name="g",cache_source="{tier}"}} {tokens}\n'
                for tier, tokens in tiers.items()
            )

        row = two(page(0, 0, 0), page(300, 50, 7))
        assert (row["cached_device_delta"], row["cached_host_delta"]) == (300, 50)
        assert (row["cached_disk_delta"], row["cached_all_delta"]) == (7, 357)
        assert row["prefix_hits_delta"] == 300

    def test_tgi(self) -> None:
        def page(requests: int) -> str:
            name = "tgi_request_mean_time_per_token_duration"
            buckets = "".join(
                f'{name}_bucket{{le="{le}"}} {requests}\n' for le in ("0.025", "0.05", "+Inf")
            )
            return (
                f"tgi_batch_current_size 5\ntgi_queue_size 3\ntgi_request_success {requests}\n"
                f'tgi_request_failure{{err="x"}} {requests}\ntgi_request_input_length_sum 18000\n'
                f"{buckets}{name}_sum {requests * 0.02}\n{name}_count {requests}\n"
            )

        pages = Pages()
        pages.feed(page(10))
        row = pages.feed(page(15))
        assert (row["running"], row["waiting"]) == (5, 3)
        assert (row["requests_all_delta"], row["requests_error_delta"]) == (10, 5)
        assert row["prompt_tokens_total"] == 18_000
        assert pages.families() == ["tpot_us"]
        assert pages.histogram("tpot_us")["sum"] == 100_000
        assert pages.engine_of(row["engine"])["kind"] == "tgi"

    def test_llamacpp(self) -> None:
        pages = Pages()
        row = pages.feed(
            "llamacpp:prompt_tokens_total 6886\nllamacpp:tokens_predicted_total 3469\n"
            "llamacpp:requests_processing 1\nllamacpp:requests_deferred 2\n"
        )
        assert (row["prompt_tokens_total"], row["generation_tokens_total"]) == (6_886, 3_469)
        assert (row["running"], row["waiting"]) == (1, 2)
        assert pages.engine_of(row["engine"])["kind"] == "llamacpp"

    @pytest.mark.parametrize("prefix", ["trtllm_", "trtllm:", "pytrtllm:"])
    def test_tensorrt_llm(self, prefix: str) -> None:
        pages = Pages()
        row = pages.feed(
            f'{prefix}num_requests_running{{model_name="d"}} 1.0\n'
            f'{prefix}prompt_tokens_total{{model_name="d"}} 201121.0\n'
        )
        assert (row["running"], row["prompt_tokens_total"]) == (1, 201_121)
        assert pages.engine_of(row["engine"])["kind"] == "trtllm"

    def test_triton_splits_one_family_by_its_label(self) -> None:
        name = "nv_trt_llm_kv_cache_block_metrics"
        row = Pages().feed(
            f'{name}{{kv_cache_block_type="max",model="tensorrt_llm",version="1"}} 3000\n'
            f'{name}{{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"}} 0.2\n'
        )
        assert row["kv_usage_ratio"] == pytest.approx(0.2)
        assert "usage_above_one" not in flags(row)

    def test_triton_counts_a_request_once_however_many_steps_its_pipeline_has(self) -> None:
        def page(count: int) -> str:
            steps = {"ensemble": count, "preprocessing": count, "tensorrt_llm": 0, "other": 5}
            return "".join(
                f'nv_inference_request_success{{model="{model}",version="1"}} {number}\n'
                for model, number in steps.items()
            )

        pages = Pages()
        pages.feed(page(59))
        pages.feed(page(70))
        found = {
            pages.engine_of(row["engine"])["model"]: row["requests_all_delta"]
            for row in pages.rows["engine_metrics"]
        }
        assert found == {"ensemble": 11, "other": 0}

    def test_a_server_of_vllm_inside_triton_is_read_as_vllm(self) -> None:
        page = 'nv_inference_request_success{model="m",version="1"} 5\n'
        pages = Pages()
        row = pages.feed(page + gauge("vllm:num_requests_running", 2))
        assert pages.engine_of(row["engine"])["kind"] == "vllm"


class TestSeveralWorkersOfOneEngine:
    def test_counts_add_up_and_shares_do_not(self) -> None:
        # Ray: one page for all replicas on a node
        row = Pages().feed(
            "".join(
                gauge("ray_vllm_num_requests_running", running, f'{LABELS},WorkerId="{worker}"')
                + gauge("ray_vllm_kv_cache_usage_perc", usage, f'{LABELS},WorkerId="{worker}"')
                for worker, running, usage in (("a", 7, 0.7), ("b", 9, 0.6))
            )
        )
        assert (row["running"], row["kv_usage_ratio"]) == (16, 0.7)
        assert "usage_above_one" not in flags(row)


class TestNoEngine:
    @pytest.mark.parametrize(
        "page",
        [
            "python_gc_objects_collected_total 5\nprocess_virtual_memory_bytes 1.03e+011\n",
            'lmcache:num_hit_tokens_total{model_name="m",worker_id="0"} 5\n',
            "",
        ],
    )
    def test_a_page_without_engine_series_says_so(self, page: str) -> None:
        with pytest.raises(NoEngineError, match="0 engine series"):
            Pages().feed(page)

    def test_another_engine_at_the_same_address_begins_anew(self) -> None:
        pages = Pages()
        pages.feed("vllm:prompt_tokens_total 100\n")
        row = pages.feed("llamacpp:prompt_tokens_total 150\n")
        assert row["prompt_tokens_delta"] is None
        assert pages.engine_of(row["engine"])["rank"] == ""


class TestHistograms:
    NAME = "vllm:inter_token_latency_seconds"

    def test_no_requests_in_the_window_give_no_row(self) -> None:
        pages = Pages()
        text = START + histogram_text(self.NAME, {"0.01": 5, "+Inf": 9}, 0.3)
        pages.feed(text)
        pages.feed(text)
        assert pages.families() == []

    def test_numbers_that_are_no_histogram_are_named(self) -> None:
        pages = Pages()
        row = pages.feed(histogram_text(self.NAME, {"0.2": 45, "0.3": 9.3, "0.5": 17, "+Inf": 0}))
        assert "not_cumulative:itl_us" in flags(row)
        assert pages.families() == []

    def test_one_bad_family_costs_its_neighbours_nothing(self) -> None:
        def page(count: int) -> str:
            return (
                START
                + histogram_text(self.NAME, {"0.2": 45, "+Inf": 0})
                + histogram_text("vllm:e2e_request_latency_seconds", {"1": count, "+Inf": count}, 0)
            )

        pages = Pages()
        pages.feed(page(1))
        pages.feed(page(3))
        assert pages.families() == ["e2e_us"]

    def test_buckets_in_text_order_and_in_other_units(self) -> None:
        pages = Pages()
        name = "vllm:kv_offload_load_size"
        pages.feed(START + histogram_text(name, {"1e+07": 0, "2e+06": 0, "+Inf": 0}))
        pages.feed(START + histogram_text(name, {"1e+07": 9, "2e+06": 4, "+Inf": 9}, 3.5e7))
        row = pages.histogram("load_size_bytes")
        assert (row["bounds"], row["counts"]) == ([2_000_000, 10_000_000], [4, 5, 0])
        assert row["sum"] == 35_000_000

    def test_a_count_too_large_for_its_column_is_left_out(self) -> None:
        pages = Pages()
        pages.feed(START + histogram_text(self.NAME, {"1": 0, "+Inf": 0}))
        pages.feed(START + histogram_text(self.NAME, {"1": 2**40, "+Inf": 2**40}))
        assert pages.families() == []

    def test_a_bucket_whose_bound_is_no_number_is_left_out(self) -> None:
        pages = Pages()
        for count in (0, 7):
            bad = f'{self.NAME}_bucket{{{LABELS},le="wide"}} 99\n'
            pages.feed(START + bad + histogram_text(self.NAME, {"1": count, "+Inf": count}))
        row = pages.histogram("itl_us")
        assert (row["bounds"], row["counts"]) == ([1_000_000], [7, 0])


def test_labels_that_never_come_twice_do_not_fill_the_memory() -> None:
    pages = Pages()
    for number in range(300):
        labels = "".join(
            gauge("vllm:request_success_total", 1, f'{LABELS},finished_reason="{number}.{part}"')
            for part in range(20)
        )
        row = pages.feed(START + gauge("vllm:generation_tokens_total", number) + labels)
        assert row["generation_tokens_delta"] == (1 if number else None)
        assert row["requests_all_total"] == 20
    reader = pages.target._reader  # noqa: SLF001
    assert reader is not None
    assert len(reader._series._uses) < 2_000  # noqa: SLF001
    assert len(reader._series._children) < 2_000  # noqa: SLF001
    (history,) = pages.target._histories.values()  # noqa: SLF001
    assert len(history._counters["requests_all"]) < 500  # noqa: SLF001
