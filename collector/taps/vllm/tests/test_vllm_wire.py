"""The datagram's layout, byte by byte, and what becomes of values that do not fit."""

from __future__ import annotations

import math
import struct

import pytest
from vllm_wire_reader import decode

from stallscope_vllm import wire

_GAP = (9, 3, 1_700_000_000_000_000, 17_123, 1, 240)


def test_the_fixed_part_is_as_described() -> None:
    data = wire.pack(wire.GAPS, {"rows": 1}, [_GAP])
    length = struct.unpack_from("<I", data, 8)[0]
    assert data[:8] == b"SSTP" + bytes([1, 2, 0, 0])
    assert (12 + length) % 8 == 0
    assert data[12 : 12 + length].rstrip(b" ").endswith(b"}")
    first = data[12 + length : 12 + length + 8]
    assert first == struct.pack("<I", 9) + bytes(4)


@pytest.mark.parametrize("count", range(1, 10))
def test_another_decoder_reads_what_was_packed(count: int) -> None:
    rows = [(n, n, 10 + n, 20 + n, n, 30 + n) for n in range(count)]
    gram = decode(wire.pack(wire.GAPS, {"rows": count, "session": "s"}, rows))
    names = ("request", "chunk_index", "mono_us", "itl_us", "tokens", "body_bytes")
    assert gram.kind == 2
    assert gram.header["session"] == "s"
    assert [tuple(row[name] for name in names) for row in gram.rows] == rows


def test_missing_values_are_the_type_s_maximum_or_nan() -> None:
    row = tuple(wire.MISSING[code] for _, code in wire.COLUMNS[wire.STEPS])
    (read,) = decode(wire.pack(wire.STEPS, {"rows": 1}, [row])).rows
    assert len(read) == 27
    assert set(read.values()) == {None}


def test_a_header_is_blank_padded_whatever_its_length() -> None:
    for extra in range(9):
        header = {"rows": 0, "model": "é" * extra, "requests": []}
        assert decode(wire.pack(wire.REQUESTS, header, ())).header["model"] == "é" * extra


@pytest.mark.parametrize("value", [None, True, "7", 7.0, -1, 2**32 - 1, 2**70, float("nan")])
def test_what_is_no_count_is_missing(value: object) -> None:
    assert wire.whole(value) == 2**32 - 1


@pytest.mark.parametrize(
    "value", [None, "1", -0.001, math.nan, math.inf, -math.inf, 5_000.0, 10**400]
)
def test_what_is_no_duration_is_missing(value: object) -> None:
    assert wire.microseconds(value) == 2**32 - 1  # 5000 s are more than the column holds


def test_durations_are_rounded_to_microseconds() -> None:
    assert wire.microseconds(0.0123456789) == 12_346
    assert wire.microseconds(0) == 0
    assert wire.microseconds(1_700_000_000.5, "q") == 1_700_000_000_500_000


@pytest.mark.parametrize("value", [None, "x", math.nan, math.inf, -0.5])
def test_what_is_no_ratio_is_missing(value: object) -> None:
    assert math.isnan(wire.ratio(value))


def test_rows_of_each_kind_fit_a_datagram() -> None:
    """The outbox sends at so many rows; the longest header comes on top."""
    most = {wire.STEPS: 256, wire.GAPS: 1_024}
    for kind, count in most.items():
        row = tuple(wire.MISSING[code] for _, code in wire.COLUMNS[kind])
        assert len(wire.pack(kind, {"rows": count}, [row] * count)) < 60_000
