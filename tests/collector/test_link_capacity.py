from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.link_capacity import LinkState

# GT/s times encoding, worked out by hand: MB/s per lane and GB/s of x16, x8 and x4.
RAW = [
    (1, 250.0, 4.000, 2.000, 1.000),
    (2, 500.0, 8.000, 4.000, 2.000),
    (3, 984.6, 15.754, 7.877, 3.938),
    (4, 1969.2, 31.508, 15.754, 7.877),
    (5, 3938.5, 63.015, 31.508, 15.754),
    (6, 7375.0, 118.0, 59.0, 29.5),
]
GENERATIONS = st.integers(1, 6)
WIDTHS = st.sampled_from([1, 2, 4, 8, 16])


@pytest.mark.parametrize(("generation", "lane", "x16", "x8", "x4"), RAW)
def test_raw_rates_are_those_of_the_standard(
    generation: int, lane: float, x16: float, x8: float, x4: float
) -> None:
    for width, gigabytes in ((16, x16), (8, x8), (4, x4)):
        assert LinkState(generation, width).raw == pytest.approx(gigabytes * 1e9, abs=0.0005e9)
    assert LinkState(generation, 1).raw == pytest.approx(lane * 1e6, abs=0.05e6)


@pytest.mark.parametrize(("generation", "gigabytes"), [(3, 10.4), (4, 22.2), (5, 47.1)])
def test_85_percent_of_usable_is_where_the_alert_stands(generation: int, gigabytes: float) -> None:
    usable = LinkState(generation, 16).usable
    assert usable is not None
    assert 0.85 * usable / 1e9 == pytest.approx(gigabytes, abs=0.05)


# Pinned copies over x16 as published, the slower direction, GB/s.
@pytest.mark.parametrize(("generation", "copied"), [(3, 12.0), (4, 26.4), (5, 55.4)])
def test_a_link_that_copies_flat_out_is_saturated(generation: int, copied: float) -> None:
    usable = LinkState(generation, 16).usable
    assert usable is not None
    assert copied * 1e9 / usable > 0.95


@given(generation=st.integers(1, 5), width=WIDTHS)
def test_usable_is_less_than_what_full_packets_leave(generation: int, width: int) -> None:
    """Or a counter that counts payload only could never show a saturated link."""
    state = LinkState(generation, width)
    assert state.raw is not None
    assert state.usable is not None
    assert 0 < state.usable < state.raw * 256 / (256 + 24)  # payload and header bytes of a packet


@given(generation=GENERATIONS, width=WIDTHS)
def test_lanes_add_up_and_generations_grow(generation: int, width: int) -> None:
    state, lane = LinkState(generation, width), LinkState(generation, 1)
    assert state.raw is not None
    assert lane.raw is not None
    assert state.raw == pytest.approx(width * lane.raw)
    before = LinkState(generation - 1, width).raw
    assert before is None or before < state.raw


@pytest.mark.parametrize("state", [LinkState(0, 16), LinkState(7, 16), LinkState(5, 0)])
def test_a_link_that_is_not_known_has_no_ceiling(state: LinkState) -> None:
    assert state.raw is None
    assert state.usable is None


def test_a_state_reads_as_people_write_it() -> None:
    assert str(LinkState(4, 8)) == "gen 4 x8"
