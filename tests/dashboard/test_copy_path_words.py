from __future__ import annotations

import re

import pytest

from analytics.copy_contention import Relation
from dashboard.components import ASSETS
from dashboard.copy_path_colours import COLOURS, colours
from dashboard.copy_path_evidence import strength
from dashboard.copy_path_links import Speed
from dashboard.copy_path_words import link_now, rate, ratio, seen, state_look


def plain(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u202f", " ")


@pytest.mark.parametrize(
    ("bytes_per_second", "words"),
    [(None, "not measured"), (0.0, "0 kB/s"), (21.44e9, "21.4 GB/s"), (654e6, "654 MB/s")],
)
def test_rates_have_a_unit_and_nothing_is_not_zero(
    bytes_per_second: float | None, words: str
) -> None:
    assert plain(rate(bytes_per_second)) == words


@pytest.mark.parametrize(
    ("coverage", "words"),
    [
        (None, "coverage unknown"), (1.0, "all of the time"), (0.998, "all of the time"),
        (0.42, "42 % of the time"), (0.02, "20 ms of each second"), (0.041, "41 ms of each second"),
    ],
)  # fmt: skip
def test_how_much_was_seen(coverage: float | None, words: str) -> None:
    assert plain(seen(coverage)) == words


@pytest.mark.parametrize(
    ("speed", "words"),
    [
        (Speed(4, 16, 4, 16), "gen 4 x16 of gen 4 x16"),
        (Speed(1, 8, 4, 16), "gen 1 x8 of gen 4 x16"),
        (Speed(4, None, None, None), "gen 4"), (Speed(None, None, 4, 16), "unknown"),
    ],
)  # fmt: skip
def test_links_now_and_at_most(speed: Speed, words: str) -> None:
    assert plain(link_now(speed)) == words


def test_ratios_are_whole_per_cent_and_small_ones_have_tenths() -> None:
    assert [plain(ratio(value)) for value in (None, 0.0, 0.0312, 0.8749)] == [
        "not measured", "0 %", "3.1 %", "87 %",
    ]  # fmt: skip


def test_a_state_that_is_newer_than_the_page_is_shown_as_it_is() -> None:
    assert state_look("half_asleep") == ("cross", "warn", "half asleep")


@pytest.mark.parametrize(
    ("relation", "word"),
    [
        (Relation(900, slope=5, correlation=0.9, chance=0.001), "Rise together"),
        (Relation(900, slope=5, correlation=0.9, chance=0.03), "May rise together"),
        (Relation(900, slope=5, correlation=0.9, chance=0.3), "No relation beyond chance"),
        (Relation(900, slope=-5, correlation=-0.9, chance=0.001), "No relation beyond chance"),
        (Relation(100, slope=5, correlation=0.9), "May rise together"),
        (Relation(100, slope=-5, correlation=-0.9), "No relation"),
    ],
)
def test_words_follow_direction_and_chance(relation: Relation, word: str) -> None:
    assert strength(relation)[0] == word


def test_charts_and_components_share_their_colours() -> None:
    text = (ASSETS / "theme.js").read_text(encoding="utf-8")
    for theme, own in COLOURS.items():
        block = text[text.index(f"{theme}: {{") :].partition("},")[0]
        shared = dict(re.findall(r'(\w+): "(#[0-9A-F]+)"', block))
        assert {name: shared[name] for name in own} == own
    assert colours(None) == colours("nosuch") == COLOURS["dark"]
