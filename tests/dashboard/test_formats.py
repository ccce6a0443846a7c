# ruff: noqa: RUF001 - dashes, minus and times are what is tested
from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import formats

SPACES = {"\u00a0": " ", "\u202f": " "}


def seen(text: str) -> str:
    """Return a text with the spaces a reader sees."""
    return "".join(SPACES.get(letter, letter) for letter in text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.19, "0.19"), (0.1234, "0.123"), (4.1, "4.1"), (41.26, "41.3"), (99.96, "100"),
        (214, "214"), (999.6, "1 000"), (1753, "1 753"), (1234567, "1 234 567"), (-3.4, "−3.4"),
        (0.0000123, "0.0000123"), (-0.0, "0"), (math.nan, "not a number"),
    ],
)  # fmt: skip
def test_three_digits_and_a_thin_space_from_four_on(value: float, text: str) -> None:
    assert seen(formats.number(value)) == text


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [
        (50_000, 75_000, "50–75 ms"), (750_000, 1_000_000, "0.75–1 s"), (0, 1_000, "≤ 1 ms"),
        (5_000_000, None, "> 5 s"), (7_197, 7_198, "7.2 ms"), (80, 300, "0.08–0.3 ms"),
    ],
)  # fmt: skip
def test_a_bucket_is_an_interval_in_one_unit(lower: int, upper: int | None, text: str) -> None:
    assert seen(formats.interval(lower, upper)) == text


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (600_000, "0.6 s"), (16e6, "16 s"), (256e6, "4 min 16 s"), (60e6, "1 min"),
        (32_940e6, "9 h 09 min"), (3_600e6, "1 h"), (183_600e6, "2 d 3 h"), (9.96e6, "10 s"),
    ],
)  # fmt: skip
def test_durations(us: float, text: str) -> None:
    assert seen(formats.duration(us)) == text


def test_milliseconds_below_a_second_and_seconds_from_there() -> None:
    assert [seen(formats.latency(us)) for us in (190, 41_000, 999_600, 4_100_000)] == [
        "0.19 ms", "41 ms", "1 s", "4.1 s",
    ]  # fmt: skip


def test_times_are_utc_with_the_day_when_it_is_another() -> None:
    now = 1_795_000_000_000_000  # 2026-11-18 11:06:40 UTC
    assert formats.clock(now, now) == "11:06:40 UTC"
    assert seen(formats.clock(now - 86_400_000_000, now)) == "17 Nov 2026, 11:06:40 UTC"
    assert seen(formats.ago(now - 90_000_000, now)) == "1 min 30 s ago"
    assert "ahead" in formats.ago(now + 9_000_000, now)


def test_ratios_sizes_and_counts() -> None:
    assert seen(formats.percent(0.984)) == "98.4 %"
    assert formats.times(6.23) == "6.2×"
    assert seen(formats.gib(31 * 2**30)) == "31 GiB"
    assert [seen(formats.disk_bytes(n)) for n in (0, 41e6, 2.5e9)] == ["0 B", "41 MB", "2.5 GB"]
    assert [seen(formats.count(n, "disk")) for n in (1, 3)] == ["1 disk", "3 disks"]
    assert formats.joined(["a", "b", "c"]) == "a, b and c"


@given(value=st.floats(-1e9, 1e9))
def test_a_number_reads_back_to_within_half_of_its_last_digit(value: float) -> None:
    text = seen(formats.number(value)).replace(" ", "").replace("−", "-")
    assert float(text) == pytest.approx(value, rel=0.006, abs=1e-300)


@given(name=st.text())
def test_no_name_is_markup(name: str) -> None:
    """What is left without the escaped signs holds none of Markdown's or HTML's own."""
    plain = formats.plain(name)
    bare = "".join(
        letter for i, letter in enumerate(plain) if letter != "\\" and plain[i - 1 : i] != "\\"
    )
    assert not set(bare) & set("*_[]()<>#`~$!|:")
