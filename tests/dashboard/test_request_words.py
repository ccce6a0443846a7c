"""Pieces of the page Requests: who is to blame, classes in words, distributions, pauses in time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.copy_path_colours import colours
from dashboard.ranges import Windows
from dashboard.request_life import Life, request_number
from dashboard.request_rows import Pause, Request
from dashboard.request_spread import Outline, Spread
from dashboard.request_spread_chart import alternative, chart
from dashboard.request_timeline import timeline
from dashboard.request_words import blame, class_name, class_words, meanwhile
from stallscope.context_length import CONTEXT_CLASSES

MS = 1_000


def pause(**more: Any) -> Pause:  # noqa: ANN401 - any column
    """Return a pause of 1 s in which the engine did one step of 1 s."""
    row: dict[str, Any] = dict.fromkeys(Pause.__dataclass_fields__)
    known = {"wall_us": 1, "engine": 1, "level": "gap", "itl_us": 1_000 * MS, "outputs": 1,
             "steps": 1, "engine_itl_us": 1_000 * MS}  # fmt: skip
    return Pause(**(row | known | more))


@pytest.mark.parametrize(
    ("engine_ms", "what"),
    [(1_000, "the engine itself"), (800, "the engine itself"), (799, "partly the engine"),
     (500, "partly the engine"), (499, "not the engine"), (None, "not known")],
)  # fmt: skip
def test_who_made_a_pause_is_told_by_the_engines_longest_gap(
    engine_ms: int | None, what: str
) -> None:
    engine_us = None if engine_ms is None else engine_ms * MS
    assert meanwhile(pause(engine_itl_us=engine_us))[0] == what


def test_what_the_engine_did_is_said_where_it_stands_out() -> None:
    quiet = pause(prefill_tokens=1_999, preempted=0)
    assert blame(quiet) == "The engine itself."
    busy = pause(prefill_tokens=38_000, preempted=2, load_bytes=3_200_000_000)
    said = blame(busy).replace("\u00a0", " ").replace("\u202f", "")
    assert said == (
        "The engine itself: in that time it preempted 2 requests, computed 38000 prompt tokens "
        "and loaded 3.2 GB of KV."
    )
    assert blame(pause(steps=None, engine_itl_us=None)).startswith("What the engine did then is")
    aside = blame(pause(engine_itl_us=41 * MS, prefill_tokens=38_000))
    assert aside.replace("\u00a0", " ") == "Not the engine: its longest gap then was 41 ms."


def test_every_class_of_context_length_has_a_word() -> None:
    assert list(class_words().values()) == [name for _, name in CONTEXT_CLASSES]
    assert class_name("long") == "over 32k"
    assert class_name("2k") == "up to 2k"
    assert class_name(None) == "length not known"
    assert class_name("<b>") == "<b>", "an older lake's class is shown as it is"


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("4294967295", 4_294_967_295), ("4294967296", None), ("-1", None), ("", None),
     ("1e3", None), ("\u0663", None), ("9" * 40, None), (" 7", None)],
)  # fmt: skip
def test_only_a_request_id_is_one(text: str, number: int | None) -> None:
    assert request_number(text) == number


BINS = st.dictionaries(st.integers(0, 90), st.integers(1, 1_000), min_size=1, max_size=20)


@settings(max_examples=60)
@given(bins=BINS)
def test_a_chart_shows_all_that_was_observed_between_readable_ticks(bins: dict[int, int]) -> None:
    spread = Spread("itl", "ITL", "", (Outline("", bins, (("p50", 2_000.0),)),))
    drawn = chart(spread, colours("dark"))
    corners = drawn["series"][0]["data"]
    shares = [share for _, share in corners]
    assert sum(shares) == pytest.approx(100, rel=0.01)
    assert (shares[0], shares[-1]) == (0, 0), "the outline is closed"
    edges = [edge for edge, _ in corners]
    assert edges == sorted(edges)
    axis = drawn["xAxis"]
    ticks = axis["axisLabel"]["customValues"]
    assert ticks == sorted(ticks)
    assert all(axis["min"] <= tick <= axis["max"] for tick in ticks)
    assert "p50 2" in alternative(spread).replace("\u00a0ms", "")


def life(pauses: list[tuple[int, int]]) -> Life:
    """Return a request of 100 windows of 10 ms with pauses (end, length) in milliseconds."""
    row: dict[str, Any] = dict.fromkeys(Request.__dataclass_fields__)
    request = Request(**(row | {"wall_us": 1_000 * MS, "engine": 1, "request": 7, "levels": "gap"}))
    nothing = np.full(len(pauses), np.nan)
    chunks = {
        "wall_us": np.array([end for end, _ in pauses]) * MS,
        "itl_us": np.array([long for _, long in pauses]) * MS,
        "tokens_in_output": nothing,
        "engine_itl_us": np.array([5 for _ in pauses]) * MS,
        "prefill_tokens": nothing,
        "preempted": nothing,
    }
    names = ("prefill_tokens", "preempted", "running_max", "waiting_max", "load_bytes",
             "store_bytes")  # fmt: skip
    work = {"wall_us": np.array([0]), **{name: np.array([np.nan]) for name in names}}
    windows = Windows(0, 10 * MS, 100)
    return Life(request, "", windows, windows, chunks, work, ended=True)


PAUSES = st.lists(st.tuples(st.integers(0, 999), st.integers(1, 400)), min_size=1, max_size=15)


@settings(max_examples=60)
@given(pauses=PAUSES)
def test_a_pause_is_drawn_over_all_of_its_time_and_the_longest_wins(
    pauses: list[tuple[int, int]],
) -> None:
    panel = timeline(life(pauses), "code")["panels"][0]
    client = next(one for one in panel["series"] if one["label"] == "client")["high"]
    for window in range(100):
        held = [
            long for end, long in pauses
            if max(0, end - long) // 10 <= window <= end // 10
        ]  # fmt: skip
        assert client[window] == (max(held) if held else None)


def test_copies_are_drawn_only_where_there_were_some() -> None:
    quiet = life([(500, 40)])
    assert "copies" not in [panel["key"] for panel in timeline(quiet, "code")["panels"]]
    quiet.work["load_bytes"][0] = 5_000_000.0
    drawn = {panel["key"]: panel for panel in timeline(quiet, "code")["panels"]}
    assert drawn["copies"]["series"][-1]["high"][0] == 5
    assert drawn["copies"]["series"][-1]["low"][:2] == [0, None], "nothing known, nothing filled"
