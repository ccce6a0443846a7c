from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.ranges import CHOICES, MAX_WINDOWS, Range, chosen, read_zoom

NOW = 1_795_000_000_000_000
S = 1_000_000


@pytest.mark.parametrize(
    ("choice", "block", "itl"),
    [
        ("5 min", "block_device", "itl_1s"), ("15 min", "block_device", "itl_1s"),
        ("1 h", "block_device_1m", "itl_10s"), ("6 h", "block_device_1m", "itl_10s"),
        ("24 h", "block_device_1m", "itl_60s"), ("7 d", "block_device_1m", "itl_60s"),
    ],
)  # fmt: skip
def test_the_resolution_follows_the_length(choice: str, block: str, itl: str) -> None:
    span = chosen(choice, NOW, None)
    assert span.seconds == CHOICES[choice]
    assert (span.source("block_device"), span.itl_source()) == (block, itl)


@given(
    seconds=st.integers(1, 40 * 86_400),
    spacing_s=st.integers(0, 600),
    now_s=st.integers(10**9, 2 * 10**9),
)
def test_windows_cover_the_range_and_are_not_too_many(
    seconds: int, spacing_s: int, now_s: int
) -> None:
    span = Range(now_s * S - seconds * S, now_s * S)
    windows = span.windows(spacing_s * S)
    assert windows.start_us <= span.since_us
    assert windows.end_us >= span.until_us
    assert windows.count <= MAX_WINDOWS + 1
    assert windows.step_us >= spacing_s * S
    assert windows.start_us % windows.step_us == 0


def test_a_second_later_the_windows_are_the_same_but_for_their_ends() -> None:
    first, second = (chosen("15 min", NOW + later, None).windows() for later in (0, S))
    assert first.step_us == second.step_us
    assert (second.start_us - first.start_us) % first.step_us == 0


def test_a_zoom_stands_still() -> None:
    span = chosen("15 min", NOW, (5 * S, 9 * S))
    assert span == Range(5 * S, 9 * S, zoomed=True)


@pytest.mark.parametrize(
    "texts", [(None, None), ("", ""), ("5", None), ("9", "5"), ("x", "7"), ("-5", "7"),
              ("1", "9" * 30), ("1.5", "2.5")],
)  # fmt: skip
def test_nonsense_in_the_url_is_no_zoom(texts: tuple[str | None, str | None]) -> None:
    assert read_zoom(*texts) is None
    assert read_zoom("5", "9") == (5, 9)
