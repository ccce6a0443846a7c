from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.diskstats import (
    FIELDS,
    Statistics,
    count_in_flight,
    count_reads_and_writes,
    parse_listing,
    parse_statistics,
)

_SEVENTEEN = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"


def _first(count: int, words: str = _SEVENTEEN) -> str:
    return " ".join(words.split()[:count])


def _known(statistics: Statistics | None) -> tuple[int, ...]:
    assert statistics is not None
    assert len(statistics) == FIELDS
    return tuple(value for value in statistics if value is not None)


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        (11, 11),  # up to 4.17
        (15, 15),  # 4.18 and later: discards
        (17, 17),  # 5.5 and later: flushes
        (14, 11),  # lxcfs: half of the discards is no use
        (12, 11),
        (16, 15),
    ],
)
def test_fields_are_counted_per_line_and_a_strange_count_gives_the_known_prefix(
    fields: int, known: int
) -> None:
    statistics = parse_statistics(_first(fields))
    assert _known(statistics) == tuple(range(1, known + 1))


def test_more_fields_than_any_kernel_prints_are_ignored() -> None:
    assert _known(parse_statistics(f"{_SEVENTEEN} 18")) == tuple(range(1, 18))


def test_an_old_partition_line_has_four_values_at_their_places_and_nothing_else() -> None:
    # 2.6.0 to 2.6.24: reads, sectors read, writes, sectors written
    statistics = parse_statistics("10 20 30 40")
    assert statistics == (10, None, 20, None, 30, None, 40, *(None,) * 10)


@pytest.mark.parametrize("fields", [1, 2, 3, 5, 10])
def test_a_line_too_short_for_any_kernel_is_refused(fields: int) -> None:
    assert parse_statistics(_first(fields)) is None


@pytest.mark.parametrize(
    "value", ["-1", "+1", "1_0", "1.0", "0x1", "\u0663", "\u00b2", "9" * 21, "9" * 5000, "nan"]
)
def test_a_value_that_is_no_unsigned_64_bit_number_refuses_the_line(value: str) -> None:
    assert parse_statistics(f"{value} {_first(10)}") is None


def test_the_layout_of_2_4_is_refused_and_not_shifted() -> None:
    # its third word is the size in blocks, the name comes after it
    old = "3 0 39082680 hda 446216 784926 9550688 4382310 424847 312726 5922052 19310380 0 1 2"
    listing = parse_listing(f"{old}\n 8 0 sda {_SEVENTEEN}\n")
    assert [line.key.name for line in listing.lines] == ["sda"]
    assert listing.rejects == 1


def test_broken_lines_are_counted_and_their_neighbours_kept() -> None:
    listing = parse_listing(
        f"x 0 sda {_SEVENTEEN}\n8 0\n\n  \n8 16 sdb {_SEVENTEEN}\n8 32 sdc\n8 48 sdd {_first(11)}"
    )
    assert [tuple(line.key) for line in listing.lines] == [("8", "16", "sdb"), ("8", "48", "sdd")]
    assert listing.rejects == 3


def test_lines_of_different_length_share_a_file() -> None:
    text = (
        f"8 0 sda {_first(11)}\n8 16 sdb {_first(15)}\n259 0 nvme0n1 {_SEVENTEEN}\n8 1 sda1 1 2 3 4"
    )
    lengths = [len(_known(parse_statistics(line.statistics))) for line in parse_listing(text).lines]
    assert lengths == [11, 15, 17, 4]


@given(st.binary())
def test_the_parser_never_raises_on_any_bytes(data: bytes) -> None:
    listing = parse_listing(data.decode("utf-8", "replace"))
    for line in listing.lines:
        parse_statistics(line.statistics)


@given(
    st.lists(
        st.sampled_from(["8", "0", "sda", "1", "-1", "\ufffd", "\u0663", "9" * 25, "\n"]),
        max_size=60,
    )
)
def test_the_parser_never_raises_on_lines_that_are_nearly_right(words: list[str]) -> None:
    for line in parse_listing(" ".join(words)).lines:
        statistics = parse_statistics(line.statistics)
        assert statistics is None or all(value is None or value >= 0 for value in statistics)


def _in_flight(value: int | None) -> Statistics:
    return (*(0,) * 8, value, *(0,) * 8)


def test_in_flight_is_added_over_lines_and_unknown_when_one_is() -> None:
    assert count_in_flight([_in_flight(3), _in_flight(4)]) == 7
    assert count_in_flight([_in_flight(3), _in_flight(None)]) is None


def test_in_flight_below_zero_inside_the_kernel_is_unknown_and_not_four_billion() -> None:
    assert count_in_flight([_in_flight(4_294_967_295)]) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("       3        4\n", (3, 4)),
        ("", (None, None)),
        ("3", (None, None)),
        ("3 x", (3, None)),
        ("4294967295 1", (None, 1)),
    ],
)
def test_sysfs_inflight_is_reads_then_writes(
    text: str, expected: tuple[int | None, int | None]
) -> None:
    assert count_reads_and_writes(text.split()) == expected
