"""What stands between engine and client: pauses of clients less gaps of the engine."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analytics import memory_lake
from tests.analytics.memory_lake import S, fill
from tests.analytics.tap_rows import MS, Row, gap, step

lake_of = partial(
    memory_lake.lake_of, others=("token_gap", "engine_step"), modules=("api_server_stall",)
)
SLOT = 100 * MS
FAR = 60 * S


def stalls_in(lake: duckdb.DuckDBPyConnection, step_us: str = "NULL") -> list[dict[str, Any]]:
    result = lake.execute(f"SELECT * FROM api_server_stall(0, {FAR}, step_us := {step_us})")
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def stalls(gaps: list[Row], steps: list[Row], step_us: str = "NULL") -> list[dict[str, Any]]:
    with lake_of({"token_gap": gaps, "engine_step": steps}) as lake:
        return stalls_in(lake, step_us)


def steady(begin_ms: int, end_ms: int, every_ms: int = 40) -> tuple[list[Row], list[Row]]:
    """Return chunks and steps of one request without a stall: each leaves 1 ms after its step."""
    at = range(begin_ms, end_ms, every_ms)
    return (
        [gap((ms + 1) * MS, every_ms * MS) for ms in at],
        [step(ms * MS, every_ms * MS) for ms in at],
    )


def test_an_event_loop_that_stands_still_is_seen_only_by_clients() -> None:
    """The engine goes on with a gap of 40 ms; the server wakes after 800 ms and sends one chunk."""
    gaps, steps = steady(1_000, 5_000)
    gaps.append(gap(5_800 * MS, 800 * MS))
    steps += [step(5_799 * MS, 40 * MS) for _ in range(20)]
    (found,) = stalls(gaps, steps)
    assert found["offset_us"] == 0
    assert found["stall_us"] == found["longest_stall_us"] == 760 * MS
    assert (found["longest_gap_us"], found["longest_engine_gap_us"]) == (800 * MS, 40 * MS)
    assert found["gaps"] == found["matched"] == 101


def test_a_slow_engine_excuses_the_server() -> None:
    gaps, steps = steady(1_000, 5_000)
    gaps.append(gap(5_801 * MS, 800 * MS))
    steps.append(step(5_800 * MS, 800 * MS))
    (found,) = stalls(gaps, steps)
    assert found["stall_us"] == 0


def test_a_request_that_resumes_after_a_preemption_excuses_the_server() -> None:
    gaps, steps = steady(1_000, 5_000)
    gaps.append(gap(5_001 * MS, 900 * MS, request=2))
    steps.append(step(5_000 * MS, 900 * MS, outlier=True))
    (found,) = stalls(gaps, steps)
    assert found["stall_us"] == 0


def test_chunks_of_several_outputs_are_no_stall() -> None:
    """A server told to send every fifth output: all pauses are 5 gaps long, and that is the way."""
    _, steps = steady(1_000, 5_000)
    gaps = [gap((ms + 1) * MS, 200 * MS) for ms in range(1_200, 5_000, 200)]
    (found,) = stalls(gaps, steps)
    assert (found["offset_us"], found["stall_us"]) == (160 * MS, 0)


def test_one_side_alone_says_nothing() -> None:
    gaps, steps = steady(1_000, 2_000)
    (clients,) = stalls(gaps, [])
    assert (clients["gaps"], clients["matched"]) == (25, 0)
    assert (clients["stall_us"], clients["longest_stall_us"], clients["offset_us"]) == (None,) * 3
    assert clients["longest_engine_gap_us"] is None
    (engine,) = stalls([], steps)
    assert (engine["gaps"], engine["stall_us"]) == (0, None)
    assert engine["longest_engine_gap_us"] == 40 * MS
    (other,) = stalls([row | {"engine": 2} for row in gaps], [])
    assert other["stall_us"] is None


def test_steps_of_another_engine_or_time_excuse_and_accuse_nobody() -> None:
    gaps, steps = steady(1_000, 2_000)
    late = [gap(30 * S, 500 * MS)]
    (found,) = stalls([*gaps, *late], [*steps, step(30 * S, 40 * MS, engine=2)], "NULL")[:1]
    assert (found["gaps"], found["matched"], found["stall_us"]) == (26, 25, 0)


def test_a_stall_stands_in_the_second_in_which_it_ended() -> None:
    gaps, steps = steady(1_000, 7_000)
    gaps.append(gap(5_300 * MS, 340 * MS, request=2))
    by_second = {row["wall_us"] // S: row for row in stalls(gaps, steps, str(S))}
    assert by_second[5]["stall_us"] == 300 * MS
    assert {row["stall_us"] for second, row in by_second.items() if second != 5} == {0}
    assert {row["offset_us"] for row in by_second.values()} == {0}


PAUSES = st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 1_500)), min_size=1, max_size=25)
STEPS = st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 600)), max_size=25)


def test_it_is_what_polars_and_plain_python_say() -> None:
    @settings(max_examples=60)
    @given(pauses=PAUSES, steps=STEPS)
    def holds(pauses: list[tuple[int, int]], steps: list[tuple[int, int]]) -> None:
        moved = [((10_000 + at) * MS, long * MS) for at, long in pauses]
        worked = [((10_000 + at) * MS, long * MS) for at, long in steps]
        fill(lake, {
            "token_gap": [gap(at, long) for at, long in moved],
            "engine_step": [step(at, long) for at, long in worked],
        })  # fmt: skip
        (found,) = stalls_in(lake)
        more = [one for pause in moved if (one := _more_us(pause, worked)) is not None]
        assert (found["gaps"], found["matched"]) == (len(moved), len(more))
        assert (found["stall_us"], found["longest_stall_us"]) == _stall(more)
        assert _polars_more(moved, worked) == sorted(more)

    with lake_of({}) as lake:
        holds()


def _more_us(pause: tuple[int, int], steps: list[tuple[int, int]]) -> int | None:
    """Return a pause less the longest engine gap in the slots that it touches, and one more."""
    end, long = pause
    slots = range((end - long) // SLOT, end // SLOT + 2)
    beside = [itl for at, itl in steps if at // SLOT in slots]
    return long - max(beside) if beside else None


def _stall(more: list[int]) -> tuple[Any, Any]:
    if not more:
        return None, None
    offset = max(0, statistics.median(more))
    excess = [max(0, one - offset) for one in more]
    return pytest.approx(sum(excess), abs=1), pytest.approx(max(excess), abs=1)


def _polars_more(moved: list[tuple[int, int]], worked: list[tuple[int, int]]) -> list[int]:
    columns = {"at": pl.Int64, "long": pl.Int64}
    pauses = pl.DataFrame(moved, schema=columns, orient="row").with_row_index("pause")
    steps = pl.DataFrame(worked, schema={"step_at": pl.Int64, "itl": pl.Int64}, orient="row")
    slot = pl.col("step_at") // SLOT
    near = (slot >= (pl.col("at") - pl.col("long")) // SLOT) & (slot <= pl.col("at") // SLOT + 1)
    beside = pauses.join(steps, how="cross").filter(near)
    longest = beside.group_by("pause", "long").agg(pl.col("itl").max())
    return sorted((longest["long"] - longest["itl"]).to_list())
