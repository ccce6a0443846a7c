from __future__ import annotations

import json
import struct
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.tap_wire import MOST_BYTES, Kind, WireError, kind_of, parse_message
from lab.synthetic.tap_datagrams import GAPS, MISSING, REQUESTS, STEPS, Column, TapSender, encode

_NEEDED = {"session": "a", "sequence": 3, "wall_us": 1_000, "mono_us": 20}
_GOOD = encode(GAPS, _NEEDED, {"request": ("I", [1, 2, 3])})


def _raw(text: bytes, *, kind: int = GAPS, version: int = 1, flags: int = 0) -> bytes:
    """Return a datagram whose header is any bytes."""
    text += b" " * (-(12 + len(text)) % 8)
    return struct.pack("<4sBBHI", b"SSTP", version, kind, flags, len(text)) + text


def test_columns_come_as_they_were_packed() -> None:
    columns: Mapping[str, Column] = {
        "engine": ("B", [0, 1, 254]),
        "wall_us": ("q", [-1, 0, 2**62]),
        "ratio": ("f", [0.25, float("nan"), 1.0]),
        "short": ("H", [1, 2, MISSING["H"]]),
        "wide": ("Q", [2**64 - 1, 0, 1]),
    }
    message = parse_message(encode(STEPS, _NEEDED, columns))
    assert message.kind is Kind.STEPS
    assert message.layout == tuple((name, code) for name, (code, _) in columns.items())
    assert message.columns["engine"].tolist() == [0, 1, 254]
    assert message.columns["wall_us"].tolist() == [-1, 0, 2**62]
    assert np.isnan(message.columns["ratio"][1])
    assert message.columns["wide"].tolist() == [2**64 - 1, 0, 1]
    assert message.header.rows == 3


def test_columns_are_views_of_the_datagram() -> None:
    assert parse_message(_GOOD).columns["request"].base is not None


def test_a_header_says_who_and_when_and_what_it_does_not_know_is_none() -> None:
    facts = {"pid": 7, "port": 8000, "server": 1, "model": "m", "engine_version": "0.32.0"}
    header = parse_message(encode(GAPS, {**_NEEDED, **facts, "dropped": 9, "new": [1]})).header
    assert (header.session, header.sequence, header.wall_us, header.mono_us) == ("a", 3, 1_000, 20)
    assert (header.pid, header.port, header.server, header.model) == (7, 8000, 1, "m")
    assert (header.engine_version, header.dropped) == ("0.32.0", 9)
    bare = parse_message(encode(GAPS, {**_NEEDED, "port": None, "model": 5, "server": -1})).header
    assert (bare.port, bare.model, bare.server, bare.tap, bare.dropped) == (*[None] * 4, 0)


def test_requests_are_read_with_nulls_for_what_lacks() -> None:
    told = {"source": "asgi", "number": 4, "id": "cmpl-x", "status": 200, "new": {}}
    message = parse_message(encode(REQUESTS, {**_NEEDED, "requests": [told]}))
    [request] = message.requests
    assert (request.number, request.id, request.status) == (4, "cmpl-x", 200)
    assert (request.finish, request.e2e_us, request.has_ended) == (None, None, False)
    assert message.rejects == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("number", -1),
        ("number", 2**32),
        ("number", 1.5),
        ("number", True),
        ("id", "x" * 600),
        ("id", 17),
        ("engine", 255),
        ("e2e_us", -5),
        ("e2e_us", 10**15),
        ("end_mono_us", 2**63),
        ("aborted", "yes"),
        ("prompt_tokens", "12"),
    ],
)
def test_a_value_that_cannot_be_is_missing_and_its_neighbours_stay(
    name: str, value: object
) -> None:
    told = {"source": "stats", "route": "/v1", name: value}
    message = parse_message(encode(REQUESTS, {**_NEEDED, "requests": [told]}))
    [request] = message.requests
    assert getattr(request, name) is None
    assert request.route == "/v1"
    assert message.rejects == 1


def test_what_is_no_request_is_counted() -> None:
    requests = [5, None, {"source": "ghost"}, {}, {"source": "asgi"}]
    message = parse_message(encode(REQUESTS, {**_NEEDED, "requests": requests}))
    assert (len(message.requests), message.rejects) == (1, 4)


def test_half_a_surrogate_pair_becomes_a_text_that_can_be_stored() -> None:
    told = b'{"source":"asgi","id":"a\\ud800"}'
    text = json.dumps({**_NEEDED, "rows": 1}).encode()[:-1] + b', "requests":[' + told + b"]}"
    [request] = parse_message(_raw(text, kind=REQUESTS)).requests
    assert request.id == "a?"


def test_first_tokens_are_rows_and_broken_ones_are_counted() -> None:
    sender = TapSender()
    good = parse_message(sender.steps({}, 5, 5, [(0, 11, 12), (255, 21, 22)]))
    assert [(one.engine, one.wall_us, one.ttft_us) for one in good.first_tokens] == [
        (0, 11, 12),
        (None, 21, 22),
    ]
    broken: tuple[tuple[object, int, int], ...] = (
        ({"engine": [0, 0], "wall_us": [1, -1], "ttft_us": [1, 1]}, 1, 1),
        ({"engine": [0], "wall_us": [1, 2], "ttft_us": [1, 1]}, 0, 1),
        ({"engine": 5}, 0, 0),
        ("none", 0, 0),
    )
    for ttft, kept, refused in broken:
        message = parse_message(encode(STEPS, {**_NEEDED, "ttft": ttft}))
        assert (len(message.first_tokens), message.rejects) == (kept, refused)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "0 bytes are shorter"),
        (_GOOD[:11], "11 bytes are shorter"),
        (b"HTTP" + _GOOD[4:], "does not begin with SSTP"),
        (_GOOD[:4] + b"\x02" + _GOOD[5:], "version 2 is not known here: upgrade stallscope"),
        (_GOOD[:4] + b"\x00" + _GOOD[5:], "version 0 is not known here: upgrade the tap"),
        (_GOOD[:5] + b"\x09" + _GOOD[6:], "kind 9 with flags 0 is not known"),
        (_GOOD[:6] + b"\x01\x00" + _GOOD[8:], "with flags 1"),
        (_GOOD[:8] + b"\xff\xff\xff\xff" + _GOOD[12:], "does not fit"),
        (_GOOD[:-5], "column request: 3 rows do not fit"),
        (_GOOD + bytes(8), "8 bytes follow the last column"),
        (bytes(MOST_BYTES + 1), "longer than a datagram may be"),
        (_raw(b""), "Expecting value"),
        (_raw(b"\xff\xfe{}"), "utf-8"),
        (_raw(b"[1, 2]"), "it is a list"),
        (_raw(b"[" * 60_000), "nested too deeply"),
        (_raw(b'{"a":' * 9_000), "nested too deeply"),
        (_raw(b'{"rows": NaN}'), "NaN is not a number"),
        (_raw(b'{"rows": 1e999}'), "has no session"),
        (_raw(b'{"session": "a", "rows": ' + b"9" * 5_000 + b"}"), "limit"),
        (_raw(b" " * 65_540), "does not fit"),
        (encode(GAPS, {**_NEEDED, "session": ""}), "no session"),
        (encode(GAPS, {**_NEEDED, "sequence": -1}), "no sequence from 0"),
        (encode(GAPS, {**_NEEDED, "rows": -1}), "no rows from 0"),
        (encode(GAPS, {**_NEEDED, "rows": 2**40}), "no rows from 0"),
        (encode(GAPS, {**_NEEDED, "rows": 100_000}, {"a": ("I", [])}), "100000 rows do not fit"),
        (encode(GAPS, {**_NEEDED, "mono_us": "now"}), "no mono_us from 0"),
        (encode(GAPS, {**_NEEDED, "columns": {}}), "not a list"),
        (encode(GAPS, {**_NEEDED, "columns": [["a", "Z"]]}), "a name and one of its codes"),
        (encode(GAPS, {**_NEEDED, "columns": [["a"]]}), "a name and one of its codes"),
        (encode(GAPS, {**_NEEDED, "columns": [["a", ["I"]]]}), "a name and one of its codes"),
        (encode(GAPS, {**_NEEDED, "columns": [["a", "I"], ["a", "I"]]}), "one column twice"),
        (encode(GAPS, {**_NEEDED, "columns": [["a", "I"]] * 65}), "at most 64"),
        (encode(REQUESTS, {**_NEEDED, "requests": {}}), "requests is not a list"),
        (encode(REQUESTS, {**_NEEDED, "requests": [0] * 9_000}), "at most 8192"),
    ],
)
def test_a_broken_datagram_is_refused_with_the_place(data: bytes, why: str) -> None:
    with pytest.raises(WireError) as refusal:
        parse_message(data)
    assert why in str(refusal.value)


def test_a_datagram_of_requests_may_be_all_header() -> None:
    told = [{"source": "asgi", "number": number, "id": "x" * 250} for number in range(300)]
    data = encode(REQUESTS, {**_NEEDED, "requests": told})
    assert 65_536 < len(data) <= MOST_BYTES
    assert len(parse_message(data).requests) == 300


def test_the_kind_is_known_without_reading() -> None:
    assert kind_of(_GOOD) is Kind.GAPS
    assert kind_of(_GOOD[:5] + b"\x09" + _GOOD[6:]) is None
    assert kind_of(b"x") is None


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for given_data in (data, b"SSTP\x01\x02\x00\x00" + data):
        try:
            parse_message(given_data)
        except WireError:
            continue


@given(st.integers(0, len(_GOOD) - 1), st.integers(0, 255))
def test_a_flipped_byte_is_read_or_refused(place: int, value: int) -> None:
    data = bytearray(_GOOD)
    data[place] = value
    try:
        message = parse_message(bytes(data))
    except WireError:
        return
    assert all(len(column) == message.header.rows for column in message.columns.values())


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(st.sampled_from([STEPS, GAPS, REQUESTS]), st.data())
def test_any_value_under_any_key_is_read_or_refused(kind: int, data: st.DataObject) -> None:
    keys = ["rows", "columns", "ttft", "requests", "port", "dropped", *_NEEDED]
    key = data.draw(st.sampled_from(keys))
    header = {**_NEEDED, "requests": [], key: data.draw(_JSON)}
    text = json.dumps({"rows": 0, "columns": [], **header}).encode()
    try:
        parse_message(_raw(text, kind=kind))
    except WireError:
        return
