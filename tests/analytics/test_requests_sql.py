"""One row per request out of what three levels tell of it, clocks kept apart."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analytics import memory_lake
from tests.analytics.memory_lake import S, fill
from tests.analytics.tap_rows import MS, Row, gap, polars_quantile, ranked, request

lake_of = partial(
    memory_lake.lake_of,
    others=("request", "token_gap"),
    modules=("requests", "requests_by_class"),
)


def ask(
    rows: list[Row], call: str = f"requests(0, {10 * S})", gaps: list[Row] | None = None
) -> list[dict[str, Any]]:
    with lake_of({"request": rows, "token_gap": gaps or []}) as lake:
        result = lake.execute(f"SELECT * FROM {call}")
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def test_the_levels_of_a_request_become_one_row_and_the_better_one_wins() -> None:
    rows = [
        request(7, "trace", 5 * S + 3, route="model-a", ttft_us=900, e2e_us=9_000, prompt_tokens=1),
        request(7, "step", 5 * S + 1, queue_us=300, prompt_tokens=2, preemptions=1, engine=4),
        request(7, "gap", 5 * S, route="/v1/completions", ttft_us=1_000, e2e_us=8_000, status=200),
        request(8, "step", 6 * S, queue_us=50),
    ]
    first, second = ask(rows)
    assert first["levels"] == "gap, step, trace"
    assert (first["wall_us"], first["route"], first["status"]) == (5 * S, "/v1/completions", 200)
    assert (first["ttft_us"], first["e2e_us"], first["prompt_tokens"]) == (1_000, 8_000, 2)
    assert first["engine"] == 4, "the statistics know which engine it was"
    assert (second["request"], second["levels"], second["ttft_us"]) == (8, "step", None)


def test_time_to_first_token_with_and_without_the_queue() -> None:
    rows = [
        request(1, "gap", ttft_us=900 * MS),
        request(1, "step", queue_us=650 * MS, prefill_us=240 * MS),
        request(2, "gap", ttft_us=100 * MS),
        request(3, "step", queue_us=5 * MS),
    ]
    found = {row["request"]: row for row in ask(rows)}
    assert (found[1]["ttft_us"], found[1]["ttft_without_queue_us"]) == (900 * MS, 250 * MS)
    assert found[2]["ttft_without_queue_us"] is None, "a queue nobody measured is not 0"
    assert found[3]["ttft_without_queue_us"] is None


def test_each_time_names_its_clock_and_a_clock_that_was_set_gives_no_time() -> None:
    """By the wall clock of the front end the first token came 20 ms after arrival, by that of the
    engine it waited for 50 ms: the wall clock was set back by 30 ms or more."""
    rows = [
        request(1, "trace", ttft_us=20 * MS, queue_us=50 * MS),
        request(2, "gap", ttft_us=70 * MS),
    ]
    wall, monotonic = ask(rows)
    assert (wall["ttft_clock"], wall["ttft_without_queue_us"]) == ("wall", None)
    assert monotonic["ttft_clock"] == "monotonic"


def test_tpot_is_taken_within_one_level() -> None:
    """End to end of the middleware less time to first token of a trace would be 700 over 9."""
    rows = [
        request(1, "gap", e2e_us=1_000, output_tokens=10),
        request(1, "trace", e2e_us=960, ttft_us=300),
        request(2, "step", decode_us=800, output_tokens=5, e2e_us=4_000),
        request(3, "gap", e2e_us=1_000, ttft_us=400),
        request(3, "step", output_tokens=4, decode_us=999),
    ]
    one, two, three = ask(rows)
    assert (one["tpot_us"], one["tpot_basis"]) == (pytest.approx(660 / 9), "e2e - ttft")
    assert (two["tpot_us"], two["tpot_basis"]) == (200, "decode")
    assert (three["tpot_us"], three["tpot_basis"]) == (200, "e2e - ttft")


@pytest.mark.parametrize("tokens", [None, 0, 1])
def test_an_answer_without_a_second_token_has_no_pause(tokens: int | None) -> None:
    (row,) = ask([request(1, "gap", e2e_us=1_000, ttft_us=400, output_tokens=tokens)])
    assert (row["tpot_us"], row["tpot_basis"]) == (None, None)


def test_a_request_on_the_edge_counts_once() -> None:
    """Its middleware ends it in one window, its statistics in the window before."""
    rows = [request(1, "step", 5 * S - 1, queue_us=9), request(1, "gap", 5 * S + 1, ttft_us=20)]
    assert ask(rows, f"requests(0, {5 * S})") == []
    (row,) = ask(rows, f"requests({5 * S}, {9 * S})")
    assert (row["queue_us"], row["ttft_us"]) == (9, 20)


def test_classes_hold_their_own_requests_and_pauses() -> None:
    rows = [
        request(1, "gap", context_class="2k", route="/a", ttft_us=10, output_tokens=5),
        request(2, "gap", context_class="2k", route="/a", ttft_us=90, output_tokens=7, status=500),
        request(3, "gap", context_class="8k", route="/a", finish="abort"),
        request(4, "step", preemptions=2),
        request(5, "step", preemptions=0),
    ]
    gaps = [
        gap(4 * S, 100, request=1), gap(4 * S, 300, request=2), gap(4 * S, 700, request=3),
        gap(4 * S, 9_999, request=6), gap(4 * S, None, request=1), gap(11 * S, 5_000, request=1),
    ]  # fmt: skip
    found = {
        (row["context_class"], row["route"]): row
        for row in ask(rows, f"requests_by_class(0, {10 * S})", gaps)
    }
    short = found["2k", "/a"]
    assert (short["requests"], short["failed"], short["aborted"]) == (2, 1, 0)
    assert (short["ttft_known"], short["ttft_p50_us"], short["ttft_p99_us"]) == (2, 10, 90)
    assert (short["output_tokens"], short["preempted"]) == (12, None)
    assert (short["gaps"], short["itl_p50_us"], short["itl_p99_us"]) == (2, 100, 300)
    assert found["8k", "/a"]["aborted"] == 1
    assert found["8k", "/a"]["itl_p99_us"] == 700
    unknown = found[None, None]
    assert (unknown["requests"], unknown["preempted"], unknown["gaps"]) == (2, 1, 0)
    assert unknown["itl_p99_us"] is None


TOLD = st.fixed_dictionaries(
    {
        "e2e_us": st.none() | st.integers(0, 10**7),
        "ttft_us": st.none() | st.integers(0, 10**7),
        "queue_us": st.none() | st.integers(0, 10**7),
        "output_tokens": st.none() | st.integers(0, 5),
    }
)


def test_every_figure_is_what_polars_and_plain_python_say() -> None:
    @settings(max_examples=60)
    @given(told=st.lists(TOLD, min_size=1, max_size=30))
    def holds(told: list[dict[str, int | None]]) -> None:
        fill(lake, {"request": [request(n, "gap") | one for n, one in enumerate(told)]})
        found = lake.execute(
            f"SELECT ttft_without_queue_us, tpot_us FROM requests(0, {10 * S}) ORDER BY request"
        ).fetchall()
        assert found == [(_without_queue(one), _tpot(one)) for one in told]
        assert found == _polars_figures(told).rows()
        (figures,) = lake.execute(
            "SELECT ttft_p50_us, ttft_p99_us, tpot_p50_us, tpot_p99_us, e2e_p99_us "
            f"FROM requests_by_class(0, {10 * S})"
        ).fetchall()
        times = [one["ttft_us"] for one in told if one["ttft_us"] is not None]
        means = [mean for one in told if (mean := _tpot(one)) is not None]
        ends = [one["e2e_us"] for one in told if one["e2e_us"] is not None]
        assert figures == (*_pair(times), *_pair(means), _pair(ends)[1])

    with lake_of({}) as lake:
        holds()


def _without_queue(one: dict[str, int | None]) -> int | None:
    ttft, queue = one["ttft_us"], one["queue_us"]
    return None if ttft is None or queue is None or ttft < queue else ttft - queue


def _tpot(one: dict[str, int | None]) -> float | None:
    end, first, tokens = one["e2e_us"], one["ttft_us"], one["output_tokens"]
    if end is None or first is None or tokens is None or tokens < 2 or end < first:
        return None
    return (end - first) / (tokens - 1)


def _polars_figures(told: list[dict[str, int | None]]) -> pl.DataFrame:
    kinds = dict.fromkeys(("e2e_us", "ttft_us", "queue_us", "output_tokens"), pl.Int64)
    pause, wait = pl.col("e2e_us") - pl.col("ttft_us"), pl.col("ttft_us") - pl.col("queue_us")
    return pl.DataFrame(told, schema=kinds).select(
        pl.when(wait >= 0).then(wait).alias("wait"),
        pl.when((pause >= 0) & (pl.col("output_tokens") > 1))
        .then(pause / (pl.col("output_tokens") - 1))
        .alias("tpot"),
    )


def _pair(values: list[Any]) -> tuple[Any, Any]:
    """Return p50 and p99, by the sorted list and by Polars alike."""
    if not values:
        return None, None
    pair = ranked(values, 0.5), ranked(values, 0.99)
    series = pl.Series(values)
    assert pair == (polars_quantile(series, 0.5), polars_quantile(series, 0.99))
    return pair
