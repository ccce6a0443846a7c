from __future__ import annotations

from collections.abc import Iterable

import pytest

from collector.link_capacity import LinkState
from collector.link_ceilings import Ceiling, LinkCeilings, Spot
from collector.source import Row
from tests.collector.stand_ins import SECOND

GEN4 = LinkState(4, 16)
RX, TX = Spot(1, "rx", GEN4), Spot(1, "tx", GEN4)
USUAL = 26e9


def _row(rate: object, kind: str = "calibrated", **other: object) -> Row:
    usual = {"device": 1, "direction": "rx", "link_generation": 4, "link_width": 16}
    return {"wall_us": 1, **usual, "kind": kind, "bytes_per_second": rate, **other}


def _ceilings(*rows: Row) -> LinkCeilings:
    ceilings = LinkCeilings(lambda: rows)
    ceilings.refresh(0)
    return ceilings


def _learn(ceilings: LinkCeilings, *rates: float, spot: Spot = RX) -> list[float | None]:
    return [ceilings.learn(spot, rate, 1.0, USUAL) for rate in rates]


def test_without_any_word_the_default_holds() -> None:
    assert _ceilings().find(RX, USUAL) == Ceiling("default", USUAL)


def test_what_was_calibrated_wins_over_what_was_learned_even_if_it_is_lower() -> None:
    ceilings = _ceilings(_row(28e9, "learned"), _row(25e9, together_bytes_per_second=18e9))
    assert ceilings.find(RX, USUAL) == Ceiling("calibrated", 25e9, 18e9)
    assert ceilings.find(TX, USUAL).kind == "default"


def test_the_last_calibration_holds_and_the_highest_lesson() -> None:
    ceilings = _ceilings(
        _row(25e9), _row(24e9), _row(29e9, "learned", direction="tx"),
        _row(28e9, "learned", direction="tx"),
    )  # fmt: skip
    assert ceilings.find(RX, USUAL).bytes_per_second == 24e9
    assert ceilings.find(TX, USUAL).bytes_per_second == 29e9


@pytest.mark.parametrize(
    "other",
    [{"device": 2}, {"link_generation": 3}, {"link_width": 8}, {"direction": "tx"}],
    ids=str,
)
def test_a_ceiling_holds_for_its_own_place_only(other: dict[str, object]) -> None:
    assert _ceilings({**_row(25e9), **other}).find(RX, USUAL).kind == "default"


@pytest.mark.parametrize(
    "row",
    [
        _row(None),
        _row(0.0),
        _row(-1.0),
        _row(25e9, link_generation=None),
        _row(25e9, direction="up"),
        _row(25e9, "guessed"),
        _row(25e9, device=None),
    ],
    ids=str,
)
def test_a_row_that_says_nothing_is_left_out(row: Row) -> None:
    assert _ceilings(row).find(RX, USUAL).kind == "default"


def test_an_old_lesson_below_the_default_is_none() -> None:
    assert _ceilings(_row(20e9, "learned")).find(RX, USUAL).kind == "default"


def test_the_lowest_of_three_windows_above_the_ceiling_is_a_lesson() -> None:
    ceilings = _ceilings()
    assert _learn(ceilings, 27e9, 29e9, 28e9) == [None, None, 27e9]
    assert ceilings.find(RX, USUAL) == Ceiling("learned", 27e9)
    assert ceilings.find(TX, USUAL).kind == "default"
    assert _learn(ceilings, 29e9) == [28e9]


def test_growth_of_a_percent_is_not_worth_a_row() -> None:
    ceilings = _ceilings()
    assert _learn(ceilings, 26.2e9, 26.2e9, 26.2e9, 26.2e9) == [None] * 4
    assert ceilings.find(RX, USUAL).kind == "default"


def test_one_window_below_or_unmeasured_breaks_the_row() -> None:
    ceilings = _ceilings()
    assert _learn(ceilings, 28e9, 28e9, 20e9, 28e9, 28e9) == [None] * 5
    ceilings.interrupt(1)
    assert _learn(ceilings, 28e9) == [None]
    assert ceilings.learn(RX, 28e9, 0.02, USUAL) is None
    assert _learn(ceilings, 28e9, 28e9) == [None, None]
    assert _learn(ceilings, 28e9) == [28e9]


def test_windows_of_another_link_state_are_no_row() -> None:
    ceilings = _ceilings()
    _learn(ceilings, 28e9, 28e9)
    assert _learn(ceilings, 12e9, spot=Spot(1, "rx", LinkState(3, 16))) == [None]
    assert _learn(ceilings, 28e9) == [None]


def test_a_calibrated_link_learns_nothing() -> None:
    assert _learn(_ceilings(_row(25e9)), 28e9, 28e9, 28e9) == [None] * 3


def test_rows_are_asked_for_once_a_minute() -> None:
    asked = []

    def rows() -> Iterable[Row]:
        asked.append(True)
        return [_row(25e9)] if len(asked) > 1 else []

    ceilings = LinkCeilings(rows)
    for second in (0, 1, 59):
        ceilings.refresh(second * SECOND)
    assert len(asked) == 1
    assert ceilings.find(RX, USUAL).kind == "default"
    ceilings.refresh(60 * SECOND)
    assert ceilings.find(RX, USUAL).kind == "calibrated"
