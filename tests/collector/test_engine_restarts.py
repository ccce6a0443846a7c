"""From where counters count: restarts, births, and pages that lack something."""

from __future__ import annotations

import pytest

from tests.collector.engine_pages import LABELS, Pages, flags, histogram_text
from tests.collector.stand_ins import SECOND

PROMPT = f"vllm:prompt_tokens_total{{{LABELS}}}"
GENERATED = f"vllm:generation_tokens_total{{{LABELS}}}"


def page(prompt: float, start_s: float | None = None, born_s: float | None = None) -> str:
    text = f"{PROMPT} {prompt}\n"
    if start_s is not None:
        text += f"process_start_time_seconds {start_s!r}\n"
    if born_s is not None:
        text += f"vllm:prompt_tokens_created{{{LABELS}}} {born_s!r}\n"
    return text


def test_the_first_page_has_totals_and_no_growth() -> None:
    row = Pages().feed(page(5_000, start_s=1.6e9))
    assert row["prompt_tokens_total"] == 5_000
    assert row["prompt_tokens_delta"] is None
    assert row["window_us"] is None
    assert row["restarted"] is False


def test_growth_is_exact_and_not_extrapolated() -> None:
    pages = Pages()
    pages.feed(page(10, start_s=1.6e9))
    row = pages.feed(page(11, start_s=1.6e9), after_s=15)
    assert (row["prompt_tokens_delta"], row["window_us"]) == (1, 15 * SECOND)
    assert flags(row) == set()


def test_nothing_new_is_zero_and_not_nothing() -> None:
    pages = Pages()
    pages.feed(page(10, start_s=1.6e9))
    assert pages.feed(page(10, start_s=1.6e9))["prompt_tokens_delta"] == 0


def test_a_counter_that_fell_counts_from_zero_and_is_marked() -> None:
    pages = Pages()
    pages.feed(page(5_000))
    row = pages.feed(page(12))
    assert row["prompt_tokens_delta"] == 12
    assert row["restarted"] is True
    assert flags(row) == {"counter_fell", "identity_unknown"}


@pytest.mark.parametrize("tells", ["process", "births", "both"])
def test_equal_counters_after_a_restart_are_recognised_by_start_times(tells: str) -> None:
    pages = Pages()

    def told(start_s: float) -> str:
        process = start_s if tells != "births" else None
        birth = start_s + 50 if tells != "process" else None
        return page(23_345, start_s=process, born_s=birth)

    pages.feed(told(1.6e9))
    row = pages.feed(told(pages.now_s + 40), after_s=100)
    assert row["restarted"] is True
    assert row["prompt_tokens_delta"] == 23_345
    assert "counter_fell" not in flags(row)
    (event,) = pages.events()
    assert event["kind"] == "engine_restarted"
    assert event["engine"] == row["engine"]
    assert str(event["before"]).startswith("started 2020-09-13 12:2")
    assert "UTC" in str(event["after"])


def test_in_multiprocess_mode_equal_counters_cannot_be_told_apart_and_that_is_said() -> None:
    pages = Pages()
    pages.feed(page(23_345))
    row = pages.feed(page(23_345))
    assert row["restarted"] is False
    assert row["prompt_tokens_delta"] == 0
    assert flags(row) == {"identity_unknown"}


def test_a_few_metrics_born_anew_are_no_restart_and_only_they_count_from_zero() -> None:
    names = ("generation_tokens", "num_preemptions", "prefix_cache_hits", "prompt_tokens")

    def told(count: int, reborn_s: float) -> str:
        text = "".join(f"vllm:{name}_total{{{LABELS}}} {count}\n" for name in names)
        births = {**dict.fromkeys(names, 1.6e9), "prompt_tokens": reborn_s}
        return text + "".join(
            f"vllm:{name}_created{{{LABELS}}} {at!r}\n" for name, at in births.items()
        )

    pages = Pages()
    pages.feed(told(100, 1.6e9))
    row = pages.feed(told(103, pages.now_s + 0.5), after_s=10)
    assert row["restarted"] is False
    assert (row["generation_tokens_delta"], row["prompt_tokens_delta"]) == (3, 103)


def test_after_a_restart_every_counter_counts_from_zero_also_those_that_did_not_fall() -> None:
    pages = Pages()
    pages.feed(f"{PROMPT} 5000\n{GENERATED} 3\n")
    row = pages.feed(f"{PROMPT} 12\n{GENERATED} 5\n")
    assert (row["prompt_tokens_delta"], row["generation_tokens_delta"]) == (12, 5)


def test_one_odd_counter_that_falls_is_no_restart() -> None:
    names = ("generation_tokens", "num_preemptions", "prefix_cache_hits")
    rest = "".join(f"vllm:{name}_total{{{LABELS}}} 100\n" for name in names)
    pages = Pages()
    pages.feed(f"{PROMPT} 5000\n{rest}")
    row = pages.feed(f"{PROMPT} 12\n{rest}")
    assert row["restarted"] is False
    assert row["prompt_tokens_delta"] == 12
    assert row["generation_tokens_delta"] == 0
    assert "counter_fell" in flags(row)
    assert pages.events() == []


def test_another_older_process_behind_the_address_is_no_restart() -> None:
    # a load balancer in between: totals of a process that began long ago say nothing of this window
    pages = Pages()
    pages.feed(page(5_000, start_s=1.6e9))
    row = pages.feed(page(90_000, start_s=1.65e9))
    assert row["restarted"] is False
    assert row["prompt_tokens_delta"] is None
    assert "other_process" in flags(row)
    assert pages.events() == []
    assert pages.feed(page(90_007, start_s=1.65e9))["prompt_tokens_delta"] == 7


def test_start_times_that_wobble_are_one_start() -> None:
    pages = Pages()
    pages.feed(page(10, start_s=1.6e9))
    row = pages.feed(page(11, start_s=1.6e9 + 0.9))
    assert (row["restarted"], row["prompt_tokens_delta"]) == (False, 1)


def test_a_clock_step_between_pages_is_no_restart() -> None:
    pages = Pages()
    pages.feed(page(10, start_s=1.6e9))
    pages.clock.wall_offset_us -= 3_600 * SECOND
    row = pages.feed(page(12, start_s=1.6e9))
    assert (row["restarted"], row["prompt_tokens_delta"], row["window_us"]) == (False, 2, SECOND)


def test_a_restart_beside_a_clock_step_is_still_seen() -> None:
    pages = Pages()
    pages.feed(page(10, start_s=1.6e9))
    pages.clock.wall_offset_us -= 3_600 * SECOND
    row = pages.feed(page(12, start_s=pages.now_s + 5), after_s=60)
    assert (row["restarted"], row["prompt_tokens_delta"]) == (True, 12)


class TestBornInTheWindow:
    def test_an_engine_that_started_since_it_was_found_absent_counts_in_full(self) -> None:
        pages = Pages()
        pages.refuse()
        row = pages.feed(page(5, start_s=pages.now_s + 3), after_s=10)
        assert (row["prompt_tokens_delta"], row["window_us"]) == (5, 10 * SECOND)
        assert row["restarted"] is False

    def test_an_engine_older_than_that_does_not(self) -> None:
        pages = Pages()
        pages.refuse()
        row = pages.feed(page(5, start_s=pages.now_s - 300), after_s=10)
        assert (row["prompt_tokens_delta"], row["window_us"]) == (None, None)

    def test_a_series_born_in_the_window_counts_in_full(self) -> None:
        pages = Pages()
        pages.feed(f"{GENERATED} 1\n")
        born = pages.now_s + 0.5
        row = pages.feed(f"{GENERATED} 1\n" + page(5, born_s=born))
        assert row["prompt_tokens_delta"] == 5

    def test_an_engine_that_joins_a_page_counts_from_its_birth(self) -> None:
        pages = Pages()
        pages.feed(page(5, born_s=1.6e9))
        joined = page(8, born_s=pages.now_s + 0.5).replace('engine="0"', 'engine="1"')
        pages.feed(page(5, born_s=1.6e9) + joined)
        rows = pages.rows["engine_metrics"]
        assert [row["prompt_tokens_delta"] for row in rows] == [0, 8]

    def test_a_series_born_before_does_not(self) -> None:
        pages = Pages()
        pages.feed(f"{GENERATED} 1\n")
        row = pages.feed(f"{GENERATED} 1\n" + page(5, born_s=1.6e9))
        assert row["prompt_tokens_delta"] is None

    def test_a_series_without_birth_counts_if_its_process_did_not_have_it_before(self) -> None:
        start = "process_start_time_seconds 1.6e9\n"
        pages = Pages()
        pages.feed(f"{start}{GENERATED} 1\n")
        row = pages.feed(f"{start}{GENERATED} 1\n{PROMPT} 5\n")
        assert row["prompt_tokens_delta"] == 5

    def test_that_holds_for_no_page_that_was_not_read_whole(self) -> None:
        start = "process_start_time_seconds 1.6e9\n"
        for broken in (
            f"{start}{GENERATED} 1\n{PROMPT} 4",
            f"{start}{GENERATED} 1\n{PROMPT} 4,0\n",
        ):
            pages = Pages()
            pages.feed(broken)
            row = pages.feed(f"{start}{GENERATED} 1\n{PROMPT} 5\n")
            assert row["prompt_tokens_delta"] is None

    def test_nor_where_the_identity_is_unknown(self) -> None:
        pages = Pages()
        pages.feed(f"{GENERATED} 1\n")
        assert pages.feed(f"{GENERATED} 1\n{PROMPT} 5\n")["prompt_tokens_delta"] is None

    def test_a_histogram_born_in_the_window_says_so(self) -> None:
        pages = Pages()
        pages.refuse()
        start = f"process_start_time_seconds {pages.now_s + 3!r}\n"
        text = histogram_text("vllm:time_to_first_token_seconds", {"1": 2, "+Inf": 5}, 9.5)
        pages.feed(start + text, after_s=10)
        row = pages.histogram("ttft_us")
        assert (row["observations"], row["counts"], row["sum"]) == (5, [2, 3], 9_500_000)
        assert "born_in_window" in flags(row)


def test_what_a_page_lacks_is_counted_once_it_is_shown_again() -> None:
    start = "process_start_time_seconds 1.6e9\n"
    pages = Pages()
    pages.feed(f"{start}{GENERATED} 1\n{PROMPT} 100\n")
    cut = pages.feed(f"{start}{GENERATED} 2\n{PROMPT} 1")  # the connection closed inside a number
    assert cut["partial"] is True
    assert "prompt_tokens_total" not in cut
    assert cut["generation_tokens_delta"] == 1
    row = pages.feed(f"{start}{GENERATED} 3\n{PROMPT} 130\n")
    assert (row["prompt_tokens_delta"], row["generation_tokens_delta"]) == (30, 1)


def test_that_holds_for_one_label_of_a_column_too() -> None:
    def told(stop: float | str, length: int) -> str:
        name = f"vllm:request_success_total{{{LABELS},finished_reason="
        return (
            f'process_start_time_seconds 1.6e9\n{name}"stop"}} {stop}\n{name}"length"}} {length}\n'
        )

    pages = Pages()
    pages.feed(told(100, 10))
    assert pages.feed(told("1,0", 11))["requests_all_delta"] == 1
    assert pages.feed(told(107, 11))["requests_all_delta"] == 7


def test_a_histogram_cut_off_before_its_end_waits_for_the_next_page() -> None:
    name = "vllm:time_to_first_token_seconds"
    start = "process_start_time_seconds 1.6e9\n"
    pages = Pages()
    pages.feed(start + histogram_text(name, {"0.001": 1, "0.005": 2, "+Inf": 2}, 0.1))
    row = pages.feed(f'{start}{name}_bucket{{{LABELS},le="0.001"}} 208.0\n')
    assert row["partial"] is True
    assert pages.families() == []
    pages.feed(start + histogram_text(name, {"0.001": 1, "0.005": 4, "+Inf": 4}, 0.2))
    assert pages.histogram("ttft_us")["counts"] == [0, 2, 0]


def test_a_window_too_long_for_its_column_is_left_out_and_growth_kept() -> None:
    pages = Pages()
    pages.feed(page(10, start_s=1.6e9))
    row = pages.feed(page(25, start_s=1.6e9), after_s=2 * 3_600)
    assert (row["window_us"], row["prompt_tokens_delta"]) == (None, 15)


def test_a_restart_after_an_absence_counts_from_the_absence() -> None:
    pages = Pages()
    pages.feed(page(10, start_s=1.6e9))
    pages.refuse(after_s=600)
    row = pages.feed(page(3, start_s=pages.now_s + 20), after_s=40)
    assert (row["restarted"], row["prompt_tokens_delta"], row["window_us"]) == (
        True,
        3,
        40 * SECOND,
    )


def test_other_settings_after_a_restart_are_another_engine_and_an_event() -> None:
    def told(start_s: float, share: str, blocks: int) -> str:
        labels = (
            f'block_size="16",engine="0",gpu_memory_utilization="{share}",num_gpu_blocks="{blocks}"'
        )
        return page(1, start_s=start_s) + f"vllm:cache_config_info{{{labels}}} 1.0\n"

    pages = Pages()
    first = pages.feed(told(1.6e9, "0.85", 2_375))
    assert {row["name"]: row["value"] for row in pages.rows["engine_config"]} == {
        "block_size": "16",
        "gpu_memory_utilization": "0.85",
        "num_gpu_blocks": "2375",
    }
    same = pages.feed(told(pages.now_s + 5, "0.85", 2_390), after_s=9)
    assert same["engine"] == first["engine"]  # blocks follow from free memory: the same settings
    other = pages.feed(told(pages.now_s + 5, "0.92", 2_600), after_s=9)
    assert other["engine"] != first["engine"]
    assert other["prompt_tokens_delta"] == 1
    events = {event["kind"]: event for event in pages.events()}
    assert events["engine_config"]["before"] == "gpu_memory_utilization=0.85"
    assert events["engine_config"]["after"] == "gpu_memory_utilization=0.92"
    assert set(events) == {"engine_config", "engine_restarted"}


def test_a_page_that_shows_no_settings_keeps_the_engine() -> None:
    pages = Pages()
    info = 'vllm:cache_config_info{block_size="16",engine="0"} 1.0\n'
    first = pages.feed(page(1) + info)
    assert pages.feed(page(2) + info[:-6])["engine"] == first["engine"]


@pytest.mark.parametrize("start", ["1e308", "1e300", "-5", "1e13", "NaN", "+Inf"])
def test_a_start_time_beyond_the_calendar_tells_nothing(start: str) -> None:
    pages = Pages()
    pages.feed(page(5))
    row = pages.feed(
        f"{page(7)}process_start_time_seconds {start}\n"
        f"vllm:prompt_tokens_created{{{LABELS}}} {start}\n"
    )
    assert row["prompt_tokens_delta"] == 2
    assert "identity_unknown" in flags(row)
