from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lab.live.own_figures import OwnFigures, parse_own_figures
from lab.live.stream import Timings
from lab.live.tap_sums import Span, check_sums, make_span, read_sums
from stallscope.clock import SystemClock
from stallscope.storage.writer import Writer, WriterOptions

_T0 = 1_700_000_000_000_000
_RIGHT = {
    "step tokens": 5,
    "step outputs": 3,
    "step prompt tokens": 30,
    "preemptions": 1,
    "outliers": 1,
    "first tokens": 2,
    "chunks": 4,
    "chunk tokens": 5,
    "step requests": 2,
    "step request tokens": 5,
    "gap requests": 2,
    "gap request tokens": 5,
    "lost": 0,
}


def _span() -> Span:
    """Two requests of 2 and 3 tokens: the second got two tokens in one chunk."""
    return make_span(
        OwnFigures(
            counters={"generation_tokens": 10, "prompt_tokens": 100, "requests_stop": 1},
            buckets={"itl_us": {"0.01": 4, "+Inf": 7}, "ttft_us": {"+Inf": 3}},
        ),
        OwnFigures(
            counters={
                "generation_tokens": 15,
                "prompt_tokens": 150,
                "cached_all": 20,
                "preemptions": 1,
                "requests_stop": 2,
                "requests_length": 1,
            },
            buckets={"itl_us": {"0.01": 5, "+Inf": 10}, "ttft_us": {"+Inf": 5}},
        ),
        requests := [
            Timings(0, chunks_us=[1, 2], output_tokens=2),
            Timings(0, chunks_us=[1, 3], output_tokens=3),
        ],
        counted=requests,
    )


def test_sums_that_agree_hold() -> None:
    checks = check_sums(_span(), _RIGHT)
    assert [check.name for check in checks if not check.holds] == []
    assert len(checks) == len(_RIGHT) - 1  # outliers have no counter of the engine's


@pytest.mark.parametrize("name", [name for name in _RIGHT if name != "outliers"])
def test_each_sum_that_is_one_off_is_found(name: str) -> None:
    rows: Mapping[str, int] = {**_RIGHT, name: _RIGHT[name] + 1}
    failed = [check.name for check in check_sums(_span(), rows) if not check.holds]
    assert failed == [f"taps, {name}"]


def test_only_rows_since_the_begin_are_added_up(tmp_path: Path) -> None:
    options = WriterOptions(sync=False, journal_s=0, live_seal_s=0, housekeeping_s=0)
    writer = Writer.open(tmp_path / "lake", "collect", clock=SystemClock(), options=options)
    step = {"mono_us": 1, "engine": 1, "engine_mono_us": 1, "generation_tokens": 4}
    writer.append(
        "engine_step",
        [
            {**step, "wall_us": _T0 - 1, "outputs": 9},
            {**step, "wall_us": _T0, "outputs": 2, "outlier": False},
            {**step, "wall_us": _T0, "outputs": 1, "outlier": True, "generation_tokens": None},
        ],
    )
    writer.close()
    sums = read_sums(tmp_path / "lake", _T0)
    assert (sums["step tokens"], sums["step outputs"], sums["outliers"]) == (4, 3, 1)
    assert sums["chunks"] == sums["lost"] == 0


_PAGE = """\
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{engine="0",model_name="m"} 5.0
vllm:generation_tokens_total{engine="1",model_name="m"} 7.0
# TYPE vllm:request_success counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 1.0
vllm:request_success_total{engine="1",finished_reason="stop",model_name="m"} 2.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="+Inf",model_name="m"} 2.0
"""


def test_figures_of_several_engines_are_added_up() -> None:
    figures = parse_own_figures(_PAGE)
    assert figures.counters == {"generation_tokens": 12, "requests_stop": 3}
    assert figures.buckets == {"ttft_us": {"+Inf": 3}}
