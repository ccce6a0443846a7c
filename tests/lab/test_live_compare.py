from __future__ import annotations

from pathlib import Path

import pytest

from lab.live.compare import Phase, compare_clients, compare_counters, compare_histograms
from lab.live.own_figures import OwnFigures, parse_own_figures
from lab.live.stream import Timings
from stallscope.clock import SystemClock
from stallscope.storage.writer import Writer, WriterOptions

_T0 = 1_700_000_000_000_000
_SCRAPE = {
    "wall_us": _T0,
    "mono_us": 1,
    "engine": 1,
    "window_us": 1_000_000,
    "scrape_us": 900,
    "restarted": False,
    "partial": False,
    "rejected_lines": 0,
    "duplicates": 0,
}
_PAGE = """\
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 70.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2.0
# TYPE vllm:request_success counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 4.0
# TYPE vllm:inter_token_latency_seconds histogram
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.01",model_name="m"} 3.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.025",model_name="m"} 5.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="+Inf",model_name="m"} 6.0
vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 6.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} 0.09
"""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake that saw 30 prompt tokens come, then 20, and six gaps in two scrapes."""
    options = WriterOptions(sync=False, journal_s=0, live_seal_s=0, housekeeping_s=0)
    writer = Writer.open(tmp_path / "lake", "collect", clock=SystemClock(), options=options)
    writer.append(
        "engine_metrics",
        [
            {**_SCRAPE, "prompt_tokens_total": 50, "prompt_tokens_delta": 30},
            {**_SCRAPE, "prompt_tokens_total": 70, "prompt_tokens_delta": 20},
        ],
    )
    bounds = [10_000, 25_000]
    writer.append(
        "engine_histogram",
        [
            _histogram([2, 2, 0], bounds),
            _histogram([1, 0, 1], bounds),
        ],
    )
    writer.close()
    return tmp_path / "lake"


def _histogram(counts: list[int], bounds: list[int]) -> dict[str, object]:
    return {
        "wall_us": _T0,
        "mono_us": 1,
        "engine": 1,
        "window_us": 1_000_000,
        "family": "itl_us",
        "observations": sum(counts),
        "sum": 90_000,
        "bounds": bounds,
        "counts": counts,
    }


def test_own_figures_are_read_by_meaning() -> None:
    figures = parse_own_figures(_PAGE)
    assert figures.counters == {"prompt_tokens": 70, "requests_stop": 4}
    assert figures.buckets == {"itl_us": {"0.01": 3, "0.025": 5, "+Inf": 6}}
    assert figures.in_flight == 2


@pytest.mark.parametrize(
    ("before", "after", "holds"),
    [(20, 70, True), (19, 70, False), (21, 71, False)],
    ids=["equal", "growth off by one", "total off by one"],
)
def test_counter_must_agree_in_total_and_in_growth(
    lake: Path, before: int, after: int, *, holds: bool
) -> None:
    own = [OwnFigures(counters={"prompt_tokens": value}) for value in (before, after)]
    (check,) = compare_counters(lake, *own)
    assert check.holds is holds


def test_every_bucket_must_agree(lake: Path) -> None:
    before = OwnFigures(buckets={"itl_us": {"0.01": 7, "0.025": 7, "+Inf": 7}})
    same = OwnFigures(buckets={"itl_us": {"0.01": 10, "0.025": 12, "+Inf": 13}})
    moved = OwnFigures(buckets={"itl_us": {"0.01": 9, "0.025": 12, "+Inf": 13}})
    assert [c.holds for c in compare_histograms(lake, before, same)] == [True]
    assert [c.holds for c in compare_histograms(lake, before, moved)] == [False]


def test_histogram_that_the_lake_has_not_must_be_empty(lake: Path) -> None:
    nothing = OwnFigures(buckets={"ttft_us": {"+Inf": 0}})
    something = OwnFigures(buckets={"ttft_us": {"+Inf": 1}})
    assert [c.holds for c in compare_histograms(lake, OwnFigures(), nothing)] == [True]
    assert [c.holds for c in compare_histograms(lake, OwnFigures(), something)] == [False]


def test_client_quantile_must_lie_in_the_bucket_give_or_take_its_lag(lake: Path) -> None:
    # Of the lake's six gaps three are up to 10 ms, so p50 lies in (0, 10 ms]; p99 has no limit.
    def holds(gap_us: int, lag_us: int = 0) -> list[bool | None]:
        request = Timings(start_us=0, chunks_us=[0, gap_us], end_us=gap_us)
        phase = Phase("x", [request], _T0 - 1, _T0 + 1, judged=True)
        return [check.holds for check in compare_clients(lake, phase, lag_us)]

    assert holds(9_000) == [True, False], "9 ms is no p99 where the lake says more than 25 ms"
    assert holds(14_000)[0] is True
    assert holds(30_000) == [False, True]
