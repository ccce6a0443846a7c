from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.nvml.wrapping import WRAP_BYTES, ByteCounts

RAW = 63e9  # generation 5, 16 lanes: wraps within 68 ms

gaps_us = st.integers(1_000, 60_000)
shares = st.floats(0, 1)
starts = st.integers(0, 2**50)


@given(st.lists(st.tuples(gaps_us, shares, shares), min_size=1, max_size=50), starts, starts)
def test_followed_closely_a_wrapping_counter_loses_no_byte(
    steps: list[tuple[int, float, float]], rx: int, tx: int
) -> None:
    counts = ByteCounts(RAW)
    at_us, first_us, first_rx, first_tx = 0, 0, rx, tx
    counts.note(at_us, rx % WRAP_BYTES, tx % WRAP_BYTES)
    counts.take()
    for gap_us, rx_share, tx_share in steps:
        at_us += gap_us
        rx += int(RAW * rx_share * gap_us / 1e6)
        tx += int(RAW * tx_share * gap_us / 1e6)
        counts.note(at_us, rx % WRAP_BYTES, tx % WRAP_BYTES)
    counted = counts.take()
    assert (counted.rx_bytes, counted.tx_bytes) == (rx - first_rx, tx - first_tx)
    assert counted.covered_us == counted.window_us == at_us - first_us


@given(st.integers(62_000, 10_000_000), starts, starts)
def test_what_may_have_come_around_is_not_counted(gap_us: int, rx: int, later_rx: int) -> None:
    counts = ByteCounts(RAW)
    counts.note(0, rx % WRAP_BYTES, 0)
    counts.take()
    counts.note(gap_us, later_rx % WRAP_BYTES, 0)
    counted = counts.take()
    assert (counted.rx_bytes, counted.covered_us, counted.window_us) == (0, 0, gap_us)


def test_a_late_reading_costs_its_own_gap_only() -> None:
    counts = ByteCounts(RAW)
    for at_us, rx in ((0, 0), (30_000, 100), (130_000, 5_000), (160_000, 5_300)):
        counts.note(at_us, rx, rx // 2)
        if not at_us:
            counts.take()
    counted = counts.take()
    assert (counted.rx_bytes, counted.tx_bytes) == (400, 200)
    assert (counted.covered_us, counted.window_us) == (60_000, 160_000)


@given(st.integers(1, 10**8), st.integers(0, 2**40))
def test_a_counter_beyond_32_bits_may_be_read_as_rarely_as_one_likes(
    gap_us: int, start: int
) -> None:
    counts = ByteCounts(RAW)
    counts.note(0, WRAP_BYTES + start, 7)
    counts.take()
    gained = int(RAW * gap_us / 1e6)
    counts.note(gap_us, WRAP_BYTES + start + gained, 7)
    counted = counts.take()
    assert counts.wide
    assert (counted.rx_bytes, counted.tx_bytes, counted.covered_us) == (gained, 0, gap_us)


def test_a_counter_that_passes_32_bits_is_not_taken_for_wrapped() -> None:
    counts = ByteCounts(RAW)
    counts.note(0, WRAP_BYTES - 10, 0)
    counts.take()
    counts.note(1_000, WRAP_BYTES + 20, 0)
    assert counts.take().rx_bytes == 30


def test_a_wide_counter_that_falls_was_reset() -> None:
    counts = ByteCounts(RAW)
    counts.note(0, WRAP_BYTES + 1_000, 0)
    counts.note(1_000, 500, 0)
    counts.note(2_000, 800, 0)
    counted = counts.take()
    assert (counted.rx_bytes, counted.covered_us) == (300, 1_000)


def test_more_than_the_link_can_carry_was_no_traffic() -> None:
    """A counter that starts over at zero looks like almost 2**32 bytes."""
    counts = ByteCounts(1e9)
    counts.note(0, 3_000_000_000, 0)
    counts.note(20_000, 0, 0)
    counted = counts.take()
    assert (counted.rx_bytes, counted.covered_us) == (0, 0)


def test_the_first_window_begins_with_the_first_reading_that_was_taken() -> None:
    counts = ByteCounts(RAW)
    assert counts.take().window_us is None
    counts.note(1_000, 0, 0)
    assert counts.take().window_us is None
    counts.note(21_000, 10, 20)
    assert counts.take().window_us == 20_000


def test_forgetting_begins_anew() -> None:
    counts = ByteCounts(RAW)
    counts.note(0, 0, 0)
    counts.take()
    counts.note(10_000, 10, 10)
    counts.forget()
    counts.note(20_000, 30, 30)
    counted = counts.take()
    assert (counted.rx_bytes, counted.covered_us, counted.window_us) == (0, 0, None)


def test_a_link_that_does_not_tell_is_taken_for_the_fastest() -> None:
    assert ByteCounts(None).wrap_us < ByteCounts(RAW).wrap_us == 68_174
