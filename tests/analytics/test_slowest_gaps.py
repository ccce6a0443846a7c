"""The longest pauses one by one, one request's chunks, and what the engine did in them."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analytics import memory_lake
from tests.analytics.memory_lake import Rows, S, fill
from tests.analytics.tap_rows import MS, Row, gap, itl, request, step

lake_of = partial(
    memory_lake.lake_of,
    others=("engine_step", "token_gap", "request", "itl_1s"),
    modules=("slowest_gaps", "request_timeline"),
)
ALL = f"0, {100 * S}"


def ask(rows: Rows, call: str) -> list[dict[str, Any]]:
    with lake_of(rows) as lake:
        result = lake.execute(f"SELECT * FROM {call}")
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


GAPS = [
    gap(2 * S, 20 * MS, chunk_index=1),
    gap(3 * S, 900 * MS, chunk_index=2),
    gap(4 * S, 300 * MS, request=2, chunk_index=5, tokens_in_output=3),
    gap(5 * S, None, request=3, chunk_index=0),
]
STEPS = [
    step(2_150 * MS, 40 * MS, prefill_tokens=10_000, preempted=1, load_bytes=5_000),
    step(2_900 * MS, 750 * MS, 8, prefill_tokens=2_000, preempted=0, store_bytes=70),
    step(2_900 * MS, 990 * MS, 1, outlier=True),
    step(2_050 * MS, 5_000 * MS, prefill_tokens=99_999),
]


def test_the_longest_come_first_with_what_the_engine_did_meanwhile() -> None:
    rows: Rows = {"token_gap": GAPS, "engine_step": STEPS, "itl_1s": [itl("gap", 3 * S)]}
    first, second = ask(rows, f"slowest_gaps({ALL}, at_most := 2)")
    assert (first["itl_us"], first["request"], first["chunk_index"]) == (900 * MS, 1, 2)
    assert (first["level"], first["steps"]) == ("gap", 2), "the one before it began is not in it"
    assert first["engine_itl_us"] == 990 * MS
    assert (first["prefill_tokens"], first["preempted"]) == (12_000, 1)
    assert (first["load_bytes"], first["store_bytes"]) == (5_000, 70)
    assert (second["request"], second["tokens_in_output"]) == (2, 3)
    assert (second["steps"], second["engine_itl_us"], second["prefill_tokens"]) == (None,) * 3


def test_class_and_route_are_those_of_the_request_once_it_has_ended() -> None:
    rows: Rows = {
        "token_gap": GAPS,
        "request": [
            request(2, "step", 6 * S, context_class="8k", route="model"),
            request(2, "gap", 6 * S, route="/v1/chat/completions"),
        ],
    }
    found = {row["request"]: row for row in ask(rows, f"slowest_gaps({ALL})")}
    assert (found[2]["context_class"], found[2]["route"]) == ("8k", "/v1/chat/completions")
    assert (found[1]["context_class"], found[1]["route"]) == (None, None)
    only = ask(rows, f"slowest_gaps({ALL}, only_class := '8k')")
    assert [row["request"] for row in only] == [2]
    only = ask(rows, f"slowest_gaps({ALL}, only_route := '/v1/chat/completions')")
    assert [row["request"] for row in only] == [2]
    assert ask(rows, f"slowest_gaps({ALL}, only_route := '/other')") == []


def test_an_engine_without_a_middleware_shows_its_steps_and_the_others_do_not_twice() -> None:
    rows: Rows = {
        "token_gap": GAPS,
        "engine_step": [*STEPS, step(7 * S, 60 * MS, 12, engine=2)],
        "itl_1s": [itl("gap", 3 * S), itl("step", 3 * S), itl("step", 7 * S, engine=2)],
    }
    found = ask(rows, f"slowest_gaps({ALL})")
    assert [(row["level"], row["itl_us"]) for row in found] == [
        ("gap", 900 * MS), ("gap", 300 * MS), ("step", 60 * MS), ("gap", 20 * MS),
    ]  # fmt: skip
    (of_step,) = (row for row in found if row["level"] == "step")
    assert (of_step["request"], of_step["outputs"], of_step["engine_itl_us"]) == (None, 12, 60 * MS)


def test_requests_that_wait_for_the_same_step_can_be_one_row() -> None:
    rows: Rows = {
        "token_gap": [
            gap(2_010 * MS, 800 * MS, request=1),
            gap(2_011 * MS, 801 * MS, request=2),
            gap(2_012 * MS, 650 * MS, request=3),
            gap(2_050 * MS, 40 * MS, request=1),
            gap(2_012 * MS, 700 * MS, request=4, engine=2),
            gap(2_310 * MS, 300 * MS, request=1),
        ]
    }
    found = ask(rows, f"slowest_gaps({ALL}, together_us := {100 * MS})")
    assert [(row["engine"], row["request"], row["itl_us"], row["outputs"]) for row in found] == [
        (1, 2, 801 * MS, 3), (2, 4, 700 * MS, 1), (1, 1, 300 * MS, 1),
    ]  # fmt: skip
    assert len(ask(rows, f"slowest_gaps({ALL})")) == 6


def test_the_floor_leaves_out_what_is_shorter() -> None:
    found = ask({"token_gap": GAPS}, f"slowest_gaps({ALL}, floor_us := {300 * MS})")
    assert [row["itl_us"] for row in found] == [900 * MS]


def test_the_longest_are_those_of_polars_and_of_the_sorted_list() -> None:
    @settings(max_examples=40)
    @given(
        pauses=st.lists(st.integers(1, 10**6), max_size=30),
        at_most=st.integers(1, 10),
        floor=st.integers(0, 10**6),
    )
    def holds(pauses: list[int], at_most: int, floor: int) -> None:
        fill(lake, {"token_gap": [gap(S + n, one, request=n) for n, one in enumerate(pauses)]})
        found = lake.execute(
            f"SELECT itl_us FROM slowest_gaps({ALL}, at_most := {at_most}, floor_us := {floor})"
        ).fetchall()
        longest = [one for one in sorted(pauses, reverse=True) if one > floor][:at_most]
        frame = pl.DataFrame({"pause": pauses}, schema={"pause": pl.Int64})
        assert [one for (one,) in found] == longest
        assert longest == (
            frame.filter(pl.col("pause") > floor).top_k(at_most, by="pause")
            .sort("pause", descending=True)["pause"].to_list()
        )  # fmt: skip

    with lake_of({}) as lake:
        holds()


CHUNKS: list[Row] = [
    gap(1_000 * MS, None, request=9, chunk_index=0),
    gap(1_050 * MS, 50 * MS, request=9, chunk_index=1, tokens_in_output=1),
    gap(1_800 * MS, 750 * MS, request=9, chunk_index=2, tokens_in_output=2),
    gap(1_810 * MS, 10 * MS, request=4, chunk_index=2),
]


def test_a_timeline_holds_the_chunks_of_one_request_in_order() -> None:
    steps = [
        step(999 * MS, 40 * MS, prefill_tokens=77),
        step(1_049 * MS, 50 * MS, running=3),
        step(1_700 * MS, 650 * MS, prefill_tokens=9_000, preempted=2, running=5),
        step(1_799 * MS, 99 * MS, prefill_tokens=100, running=4),
        step(1_799 * MS, 5 * MS, engine=2, prefill_tokens=1),
    ]
    found = ask({"token_gap": CHUNKS[::-1], "engine_step": steps}, "request_timeline(9)")
    assert [row["chunk_index"] for row in found] == [0, 1, 2]
    assert [row["after_us"] for row in found] == [0, 50 * MS, 800 * MS]
    assert [row["itl_us"] for row in found] == [None, 50 * MS, 750 * MS]
    assert [row["steps"] for row in found] == [None, 1, 2]
    assert [row["engine_itl_us"] for row in found] == [None, 50 * MS, 650 * MS]
    assert [row["prefill_tokens"] for row in found] == [None, None, 9_100]
    assert [row["preempted"] for row in found] == [None, None, 2]
    assert [row["running_max"] for row in found] == [None, 3, 5]


def test_steps_may_be_those_of_an_engine_that_the_middleware_does_not_see() -> None:
    steps = [step(1_799 * MS, 700 * MS, engine=2)]
    rows: Rows = {"token_gap": CHUNKS, "engine_step": steps}
    assert [row["steps"] for row in ask(rows, "request_timeline(9)")] == [None] * 3
    found = ask(rows, "request_timeline(9, of_engine := 2)")
    assert [row["engine_itl_us"] for row in found] == [None, None, 700 * MS]


def test_a_range_bounds_the_search_and_an_unknown_request_has_no_chunks() -> None:
    rows: Rows = {"token_gap": CHUNKS}
    found = ask(rows, f"request_timeline(9, since_us := 0, until_us := {1_100 * MS})")
    assert [row["chunk_index"] for row in found] == [0, 1]
    assert ask(rows, "request_timeline(5)") == []
