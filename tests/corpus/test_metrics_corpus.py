"""Recorded metrics pages: each is read to its last line, with the figures its index promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.edges.prompage import Page
from collector.edges.promtext import Parser
from collector.engine_histograms import grow, suspect
from collector.engine_names import KINDS, detect_kind
from collector.engine_reading import PageReader
from collector.engine_target import NoEngineError
from collector.source import Row
from tests.collector.engine_pages import Pages, flags

PAIRS = ("mtp3-exact-r1", "mtp3-exact-r2", "mtp3-exact-r3", "off-off-r1", "off-off-r2")

FORMATS = {
    # name: samples, TYPE lines
    "node_exporter-client_side_timestamp.prom": (2, 0),
    "node_exporter-different_metric_types.prom": (22, 2),
    "node_exporter-histogram_extra_dimension.prom": (26, 1),
    "node_exporter-inconsistent_metrics.prom": (19, 2),
    "node_exporter-summary.prom": (20, 1),
    "telegraf-openmetrics-multiple.txt": (14, 3),
    "telegraf-openmetrics-valid_counter.txt": (1, 1),
    "telegraf-openmetrics-valid_gaugehistogram.txt": (10, 1),
    "telegraf-openmetrics-valid_histogram.txt": (10, 1),
    "telegraf-openmetrics-valid_stateset.txt": (6, 1),
    "telegraf-openmetrics-valid_summary.txt": (6, 1),
    "telegraf-prometheus-metric_with_timestamp.txt": (1, 1),
    "telegraf-prometheus-valid_histogram.txt": (10, 1),
}
RETYPED = {
    "labels-with-braces.prom": (2, 0),
    "llamacpp-pr695.prom": (4, 4),
    "lmcache-issue1318.prom": (5, 5),
    "sglang-0.5-issue13485.prom": (4, 4),
    "sglang-dp8-issue1614.prom": (8, 1),
    "trailing-comma-duplicate-help.prom": (3, 2),
    "triton-trtllm-issue49.prom": (8, 2),
    "trtllm-pr5560.prom": (8, 0),
    "vllm-0.10-issue617.prom": (10, 3),
    "vllm-0.5.1-issue6337-ttft-zero.prom": (6, 1),
    "vllm-0.5.4-issue7782.prom": (7, 3),
    "vllm-0.8-router-issue318.prom": (5, 5),
    "vllm-v0-0.6-idle.prom": (13, 13),
}
REAL = {
    # name: samples, TYPE lines, prompt, generated, ITL count, TTFT count
    "alint-gsm8k-autoround-mtp3-metrics-after.prom": (447, 94, 331_882, 50_888, 15_115, 520),
    "alint-gsm8k-autoround-mtp3-metrics-before.prom": (447, 94, 5_080, 711, 213, 8),
    "alint-mtp3-exact-r1-metrics-after.prom": (447, 94, 23_345, 8_200, 2_921, 33),
    "alint-mtp3-exact-r1-metrics-before.prom": (447, 94, 11_675, 4_104, 1_458, 17),
    "alint-mtp3-exact-r2-metrics-after.prom": (447, 94, 23_345, 8_200, 2_798, 33),
    "alint-mtp3-exact-r2-metrics-before.prom": (447, 94, 11_675, 4_104, 1_373, 17),
    "alint-mtp3-exact-r3-metrics-after.prom": (447, 94, 23_345, 8_200, 2_959, 33),
    "alint-mtp3-exact-r3-metrics-before.prom": (447, 94, 11_675, 4_104, 1_481, 17),
    "alint-off-off-r1-metrics-after.prom": (435, 86, 23_345, 8_200, 8_167, 33),
    "alint-off-off-r1-metrics-before.prom": (435, 86, 11_675, 4_104, 4_087, 17),
    "alint-off-off-r2-metrics-after.prom": (435, 86, 23_345, 8_200, 8_167, 33),
    "alint-off-off-r2-metrics-before.prom": (435, 86, 11_675, 4_104, 4_087, 17),
    "hwrouter-qwen.prom": (379, 62, 0, 0, 0, 0),
    "hwrouter-vllm.prom": (379, 62, 0, 0, 0, 0),
}


@pytest.fixture(scope="session")
def metrics(corpus: Path) -> Path:
    return corpus / "metrics"


def read(path: Path) -> Page:
    """Read a file as if no header came with it."""
    return Parser().parse(path.read_bytes(), "")


def value(page: Page, name: str, **labels: str) -> float | None:
    found = [
        number
        for series, number in page.values.items()
        if series.name == name and labels.items() <= dict(series.labels).items()
    ]
    assert len(found) == 1, (name, labels, found)
    return found[0]


def at_start(path: Path) -> Pages:
    """Return a target on whose clock the process of a recorded page started a moment ago."""
    start = value(read(path), "process_start_time_seconds")
    assert start is not None
    pages = Pages()
    pages.clock.wall_offset_us = round(start * 1_000_000) - pages.clock.mono_us
    return pages


@pytest.fixture(scope="session")
def pair(metrics: Path) -> Callable[[str], Pages]:
    """Return a function that reads the two pages of a run and keeps the rows of the second."""

    def read_pair(name: str) -> Pages:
        folder = metrics / "vllm"
        before = folder / f"alint-{name}-metrics-before.prom"
        pages = at_start(before)
        pages.feed(before.read_bytes(), after_s=900)
        pages.feed((folder / f"alint-{name}-metrics-after.prom").read_bytes(), after_s=40)
        return pages

    return read_pair


def test_every_file_of_the_corpus_stands_in_a_table_here(metrics: Path) -> None:
    pages = {path.name for path in metrics.glob("*/*") if path.suffix in {".prom", ".txt"}}
    assert pages - {"inference-perf-vllm-v0.26.0-families.txt"} == {*FORMATS, *RETYPED, *REAL}


@pytest.mark.parametrize("name", [*FORMATS, *RETYPED])
def test_samples_and_types_of_every_excerpt(metrics: Path, name: str) -> None:
    folder = "format" if name in FORMATS else "retyped"
    page = read(metrics / folder / name)
    assert (page.samples, len(page.types)) == (FORMATS | RETYPED)[name]
    assert (page.rejected, page.duplicates, page.partial) == (0, 0, False)


@pytest.mark.parametrize("name", REAL)
def test_figures_of_every_real_page(metrics: Path, name: str) -> None:
    samples, types, prompt, generated, itl, ttft = REAL[name]
    path = metrics / "vllm" / name
    page = read(path)
    assert (page.samples, len(page.types)) == (samples, types)
    assert (page.rejected, page.duplicates, page.partial) == (0, 0, False)
    pages = Pages()
    row = pages.feed(path.read_bytes())
    assert (row["running"], row["waiting"], row["kv_usage_ratio"]) == (0, 0, 0)
    assert (row["prompt_tokens_total"], row["generation_tokens_total"]) == (prompt, generated)
    assert (row["prefix_queries_total"], row["prefix_hits_total"]) == (0, 0)
    assert row["preemptions_total"] == 0
    assert flags(row) == set()
    reader = PageReader(KINDS[0])
    (reading,) = reader.read(page).values()
    counts = {
        family: sum(one.counts[-1] for one in children.values())
        for family, children in reading.histograms.items()
    }
    assert (counts["itl_us"], counts["ttft_us"]) == (itl, ttft)


@pytest.mark.parametrize("name", PAIRS)
def test_before_and_after_give_exactly_what_the_bench_reports(
    corpus: Path, pair: Callable[[str], Pages], name: str
) -> None:
    bench_path = corpus / "bench" / "vllm-plain" / f"alint-{name}-bench.json"
    bench = json.loads(bench_path.read_text(encoding="utf-8"))
    pages = pair(name)
    (row,) = pages.rows["engine_metrics"]
    assert row["requests_all_delta"] == bench["completed"] == 16
    assert row["prompt_tokens_delta"] == bench["total_input_tokens"] == 11_670
    assert row["generation_tokens_delta"] == bench["total_output_tokens"] == 4_096
    assert (row["restarted"], flags(row)) == (False, set())


@pytest.mark.parametrize("name", [*PAIRS, "gsm8k-autoround-mtp3"])
def test_before_and_after_agree_with_independent_arithmetic(
    metrics: Path, pair: Callable[[str], Pages], name: str
) -> None:
    path = metrics / "vllm" / "oracle_before_after_vs_bench.json"
    oracle = {one["pair"]: one for one in json.loads(path.read_text(encoding="utf-8"))}
    expected = oracle[f"alint-{name}"]
    pages = pair(name)
    (row,) = pages.rows["engine_metrics"]
    assert row["requests_all_delta"] == expected["n"]
    assert row["prompt_tokens_delta"] == expected["prompt"]
    assert row["generation_tokens_delta"] == expected["gen"]
    assert row.get("spec_drafts_delta", 0) == expected["drafts"]
    itl, ttft = pages.histogram("itl_us"), pages.histogram("ttft_us")
    assert itl["observations"] == expected["itl_n"]
    assert ttft["observations"] == expected["n"]
    assert mean_ms(itl) == pytest.approx(expected["itl_mean"], abs=0.05)
    assert mean_ms(ttft) == pytest.approx(expected["ttft_mean_ms"], abs=0.05)
    low, high = p99_bucket(ttft)
    assert [low / 1e6, high / 1e6] == expected["p99_bucket"]


def mean_ms(row: Row) -> float:
    return float(str(row["sum"])) / int(str(row["observations"])) / 1_000


def p99_bucket(row: Row) -> tuple[int, int]:
    counts, bounds = row["counts"], row["bounds"]
    assert isinstance(counts, list)
    assert isinstance(bounds, list)
    seen = 0
    for place, count in enumerate(counts):
        seen += count
        if seen >= 0.99 * sum(counts):
            return bounds[place - 1], bounds[place]
    raise AssertionError


def test_the_mean_ttft_is_a_little_below_what_clients_saw(
    corpus: Path, pair: Callable[[str], Pages]
) -> None:
    for name in PAIRS:
        path = corpus / "bench" / "vllm-plain" / f"alint-{name}-bench.json"
        seen = json.loads(path.read_text(encoding="utf-8"))["mean_ttft_ms"]
        assert 4 <= round(seen - mean_ms(pair(name).histogram("ttft_us"))) <= 6


def test_a_real_restart_is_seen_though_the_counters_came_back_lower(metrics: Path) -> None:
    folder = metrics / "vllm"
    last = folder / "alint-mtp3-exact-r1-metrics-after.prom"
    anew = folder / "alint-mtp3-exact-r2-metrics-before.prom"
    pages = at_start(last)
    pages.feed(last.read_bytes(), after_s=1_200)
    gap_s = (value(read(anew), "process_start_time_seconds") or 0) + 900 - pages.now_s
    row = pages.feed(anew.read_bytes(), after_s=gap_s)
    assert (row["restarted"], row["prompt_tokens_delta"]) == (True, 11_675)
    assert [event["kind"] for event in pages.events()] == ["engine_restarted"]


def test_a_real_restart_with_equal_counters_is_seen_by_start_times_only(metrics: Path) -> None:
    folder = metrics / "vllm"
    last = folder / "alint-mtp3-exact-r1-metrics-after.prom"
    anew = folder / "alint-mtp3-exact-r2-metrics-after.prom"
    pages = at_start(last)
    before = pages.feed(last.read_bytes(), after_s=1_200)
    gap_s = (value(read(anew), "process_start_time_seconds") or 0) + 950 - pages.now_s
    row = pages.feed(anew.read_bytes(), after_s=gap_s)
    assert before["prompt_tokens_total"] == row["prompt_tokens_total"] == 23_345
    assert (row["restarted"], row["prompt_tokens_delta"]) == (True, 23_345)
    assert row["generation_tokens_delta"] == 8_200
    assert pages.histogram("itl_us")["observations"] == 2_798


class TestFormats:
    def test_client_side_timestamps(self, metrics: Path) -> None:
        page = read(metrics / "format" / "node_exporter-client_side_timestamp.prom")
        assert value(page, "normal_metric") == 2
        assert {one.name: at for one, at in page.times_us.items()} == {
            "metric_with_custom_timestamp": 1_441_205_977_284_000
        }

    def test_openmetrics_counter(self, metrics: Path) -> None:
        page = read(metrics / "format" / "telegraf-openmetrics-valid_counter.txt")
        assert value(page, "get_token_fail_count_total") == 8
        assert list(page.times_us.values()) == [123_000_000]

    def test_created_is_no_value(self, metrics: Path) -> None:
        page = read(metrics / "format" / "telegraf-openmetrics-multiple.txt")
        assert len(page.births) == 2
        assert set(page.births.values()) == {1_605_281_325.0}
        assert not any("created" in series.name for series in page.values)

    @pytest.mark.parametrize("name", ["gaugehistogram", "histogram"])
    def test_bounds_in_scientific_notation(self, metrics: Path, name: str) -> None:
        page = read(metrics / "format" / f"telegraf-openmetrics-valid_{name}.txt")
        family = "apiserver_request_latencies_microseconds"
        assert value(page, f"{family}_bucket", le="1e+06") == 2_005
        assert value(page, f"{family}_bucket", le="+Inf") == 2_025
        assert value(page, f"{family}_sum") == 1.02726334e8

    def test_states(self, metrics: Path) -> None:
        page = read(metrics / "format" / "telegraf-openmetrics-valid_stateset.txt")
        assert sorted(value or 0 for value in page.values.values()) == [0, 1, 1, 1, 1, 1]

    def test_timestamp_in_milliseconds(self, metrics: Path) -> None:
        page = read(metrics / "format" / "telegraf-prometheus-metric_with_timestamp.txt")
        assert value(page, "test_counter") == 1
        assert list(page.times_us.values()) == [1_601_830_800_000_000]

    def test_label_sets_that_differ_inside_a_family(self, metrics: Path) -> None:
        page = read(metrics / "format" / "node_exporter-inconsistent_metrics.prom")
        assert value(page, "http_requests_total", foo="bar") == 325
        assert value(page, "go_goroutines", foo="bar") == 229

    def test_every_family_of_vllm_026_is_known_or_ignored(self, metrics: Path) -> None:
        path = metrics / "format" / "inference-perf-vllm-v0.26.0-families.txt"
        lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
        assert len(lines) == 36  # the rest of its 42 lines is comment
        labels = 'engine="0",model_name="m"'
        text = ""
        for line in lines:
            name, kind = line.split()
            if kind == "histogram":
                text += "".join(f'{name}_bucket{{{labels},le="{le}"}} 1\n' for le in ("1", "+Inf"))
                text += f"{name}_count{{{labels}}} 1\n{name}_sum{{{labels}}} 1\n"
            else:
                text += f"{name}{{{labels}}} 1\n"
        row = Pages().feed(text)
        assert row["rejected_lines"] == 0
        for column in ("running", "waiting", "kv_usage_ratio", "prompt_tokens_total"):
            assert row[column] == 1


class TestRetyped:
    @pytest.fixture
    def folder(self, metrics: Path) -> Path:
        return metrics / "retyped"

    def test_braces_in_values(self, folder: Path) -> None:
        page = read(folder / "labels-with-braces.prom")
        name = "pgexporter_pg_installed_extensions"
        assert value(page, name, server="primary", extensions="{plpgsql}") == 1

    def test_llamacpp_without_labels(self, folder: Path) -> None:
        row = Pages().feed((folder / "llamacpp-pr695.prom").read_bytes())
        assert (row["prompt_tokens_total"], row["generation_tokens_total"]) == (6_886, 3_469)

    def test_lmcache_alone_is_no_engine(self, folder: Path) -> None:
        with pytest.raises(NoEngineError):
            Pages().feed((folder / "lmcache-issue1318.prom").read_bytes())

    def test_sglang(self, folder: Path) -> None:
        row = Pages().feed((folder / "sglang-0.5-issue13485.prom").read_bytes())
        assert (row["running"], row["kv_usage_ratio"]) == (1, 0)

    def test_sglang_with_eight_ranks(self, folder: Path) -> None:
        pages = Pages()
        text = (folder / "sglang-dp8-issue1614.prom").read_text("utf-8")
        pages.feed(text)
        before = [row["engine"] for row in pages.rows["engine_metrics"]]
        ranks = [pages.engine_of(engine)["rank"] for engine in before]
        assert sorted(map(str, ranks)) == [str(rank) for rank in range(8)]
        pages.feed(text.replace('pid="91', 'pid="42'))  # restarted: other pids, the same engines
        assert [row["engine"] for row in pages.rows["engine_metrics"]] == before

    def test_trailing_comma_and_second_help(self, folder: Path) -> None:
        page = read(folder / "trailing-comma-duplicate-help.prom")
        assert sorted(value or 0 for value in page.values.values()) == [0, 3, 188]

    def test_triton_counts_requests_once(self, folder: Path) -> None:
        pages = Pages()
        (row,) = [pages.feed((folder / "triton-trtllm-issue49.prom").read_bytes())]
        assert len(pages.rows["engine_metrics"]) == 1
        assert (row["requests_all_total"], row["requests_error_total"]) == (59, 0)

    def test_tensorrt_llm_without_types(self, folder: Path) -> None:
        page = read(folder / "trtllm-pr5560.prom")
        assert page.types == {}
        row = Pages().feed((folder / "trtllm-pr5560.prom").read_bytes())
        assert (row["running"], row["waiting"]) == (1, 0)
        assert (row["prompt_tokens_total"], row["generation_tokens_total"]) == (201_121, 81_896)
        assert (row["requests_all_total"], row["requests_error_total"]) == (707, 0)

    def test_vllm_010(self, folder: Path) -> None:
        page = read(folder / "vllm-0.10-issue617.prom")
        assert len(page.births) == 2
        assert value(page, "vllm:request_params_n_count") == 4

    def test_a_page_cut_off_before_inf_with_every_observation_zero(self, folder: Path) -> None:
        path = folder / "vllm-0.5.1-issue6337-ttft-zero.prom"
        row = Pages().feed(path.read_bytes())
        assert row["partial"] is True
        whole = path.read_text("utf-8")
        last = whole.strip().splitlines()[-1]
        labels = last[last.index("{") + 1 : last.index("}")].replace('le="0.06",', "")
        name = "vllm:time_to_first_token_seconds"
        whole += f'{name}_bucket{{le="+Inf",{labels}}} 208.0\n{name}_count{{{labels}}} 208.0\n'
        whole += f"{name}_sum{{{labels}}} 0.0\n"
        (reading,) = PageReader(KINDS[0]).read(Parser().parse(whole.encode(), "")).values()
        (histogram,) = reading.histograms["ttft_us"].values()
        growth = grow(None, histogram)
        assert growth.counts[0] == growth.observations == 208
        assert suspect(growth) == {"all_in_lowest", "zero_sum"}

    def test_a_page_without_engine_series(self, folder: Path) -> None:
        page = read(folder / "vllm-0.5.4-issue7782.prom")
        assert value(page, "process_virtual_memory_bytes") == 1.0322907136e11
        assert detect_kind(page.values) is None

    def test_vllm_08_without_engine_label(self, folder: Path) -> None:
        pages = Pages()
        row = pages.feed((folder / "vllm-0.8-router-issue318.prom").read_bytes())
        facts = pages.engine_of(row["engine"])
        assert (facts["rank"], facts["model"]) == ("", "Qwen/Qwen2.5-Coder-32B-Instruct")
        assert (row["kv_usage_ratio"], flags(row)) == (0, set())

    def test_vllm_v0_says_minus_one_for_no_data(self, folder: Path) -> None:
        row = Pages().feed((folder / "vllm-v0-0.6-idle.prom").read_bytes())
        assert "hit_reported_ratio" not in row
        assert (row["swapped"], row["cpu_kv_usage_ratio"]) == (0, 0)
        assert (row["prompt_tokens_total"], row["preemptions_total"]) == (0, 0)

    @pytest.mark.parametrize("run", [0, 1])
    def test_offload_under_two_names_counts_once(self, folder: Path, run: int) -> None:
        path = folder / "vllm-kv-offload-deltas-qwen3-32b.json"
        series = json.loads(path.read_text("utf-8"))["series"]

        def page(at: int) -> str:
            return "process_start_time_seconds 1.6e9\n" + "".join(
                f"{name} {at and values[run]}\n" for name, values in series.items()
            )

        pages = Pages()
        pages.feed(page(0))
        row = pages.feed(page(1))
        expected = {
            "load_bytes_delta": series["vllm:kv_offload_load_bytes_total"][run],
            "load_time_us_delta": series["vllm:kv_offload_load_time_total"][run] * 1_000_000,
            "store_bytes_delta": series["vllm:kv_offload_store_bytes_total"][run],
            "tier_read_time_us_delta": (8_056, 10_543)[run] * 1_000_000,
            "external_hits_delta": (23_030_640, 32_583_168)[run],
            "prefix_queries_delta": (32_971_579, 40_682_785)[run],
            "transfer_failures_delta": (21, 31)[run],
        }
        assert {column: row[column] for column in expected} == expected
