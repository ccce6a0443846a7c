"""Datagrams of the engine's taps: a prefix, a JSON header, packed columns, all little endian.

Bounded in every respect, since any process of the socket's group may send. Tolerant in what
versions differ in: unknown columns and keys are passed over, those that lack are missing.
The tap shares no code with this; docs/tap-wire.md has the format.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from collector.tap_header import HeaderError, TapHeader, parse_header, parse_layout
from collector.tap_json import JsonError, parse_object, whole
from collector.tap_request import TapRequest, parse_request

VERSION = 1
"""The newest version of the wire; the one before is read as well."""

MOST_BYTES = 128 * 1024
"""Longest datagram."""

Numbers = npt.NDArray[np.integer | np.floating]
Layout = tuple[tuple[str, str], ...]

_OLDEST = max(1, VERSION - 1)
_PREFIX = struct.Struct("<4sBBHI")
_MAGIC = b"SSTP"
_KIND_AT = 5
_ALIGNMENT = 8
_MOST_HEADER_BYTES = 64 * 1024
_MOST_LISTED = 8_192
_LONGEST_TTFT_US = 366 * 86_400 * 1_000_000
_LAST_US = 2**62
_CODES: Mapping[str, np.dtype[np.integer | np.floating]] = {
    code: np.dtype(kind)
    for code, kind in {
        "B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8",
        "b": "i1", "h": "<i2", "i": "<i4", "q": "<i8",
        "f": "<f4", "d": "<f8",
    }.items()
}  # fmt: skip


class WireError(ValueError):
    """A datagram is not one of ours, or broken; the message says where."""


class Kind(IntEnum):
    """What a datagram carries."""

    STEPS = 1
    GAPS = 2
    REQUESTS = 3


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The first token of some request.

    Attributes:
        engine: Index of its engine; None when not known.
        wall_us: When, on the sender's wall clock.
        ttft_us: Time from the request's arrival.
    """

    engine: int | None
    wall_us: int
    ttft_us: int


@dataclass(frozen=True, slots=True)
class Message:
    """A datagram, read.

    Attributes:
        kind: What it carries.
        header: Who sent it and when.
        layout: Names and codes of its columns.
        columns: The columns by name, as they lie in the datagram: missing integers are the
            maximum of their type, missing floats NaN.
        first_tokens: Of the steps it carries.
        requests: What it tells of requests.
        rejects: Values and objects that were refused; their neighbours are here.
    """

    kind: Kind
    header: TapHeader
    layout: Layout = ()
    columns: Mapping[str, Numbers] = field(default_factory=dict)
    first_tokens: tuple[FirstToken, ...] = ()
    requests: tuple[TapRequest, ...] = ()
    rejects: int = 0


def kind_of(data: bytes) -> Kind | None:
    """Return what a datagram says it carries, without reading it; None when it is none of ours."""
    if len(data) < _PREFIX.size or not data.startswith(_MAGIC):
        return None
    try:
        return Kind(data[_KIND_AT])
    except ValueError:
        return None


def parse_message(data: bytes) -> Message:
    """Return what a datagram says.

    Raises:
        WireError: It is not of this wire, of a version that is not known, or broken.
    """
    kind, end = _parse_prefix(data)
    try:
        values = parse_object(data[_PREFIX.size : end])
        header = parse_header(values)
        if kind is Kind.REQUESTS:
            return _read_requests(header, values.get("requests"))
        layout = parse_layout(values.get("columns"), tuple(_CODES))
    except (JsonError, HeaderError) as error:
        raise WireError(f"header: {error}") from error
    columns = _read_columns(data, end, layout, header.rows)
    tokens, rejects = _read_first_tokens(values.get("ttft")) if kind is Kind.STEPS else ((), 0)
    return Message(kind, header, layout, columns, first_tokens=tokens, rejects=rejects)


def _parse_prefix(data: bytes) -> tuple[Kind, int]:
    """Return the kind and where the header ends.

    Raises:
        WireError: As for `parse_message`.
    """
    if len(data) < _PREFIX.size:
        raise WireError(f"{len(data)} bytes are shorter than a prefix")
    if len(data) > MOST_BYTES:
        raise WireError(f"{len(data)} bytes are longer than a datagram may be")
    magic, version, number, reserved, length = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise WireError("it does not begin with SSTP")
    if not _OLDEST <= version <= VERSION:
        older = "the tap" if version < _OLDEST else "stallscope"
        raise WireError(f"wire version {version} is not known here: upgrade {older}")
    kind = kind_of(data)
    if kind is None or reserved:
        raise WireError(f"kind {number} with flags {reserved} is not known here")
    end = _PREFIX.size + length
    # Of requests the header is everything, of the other kinds it is the smaller part.
    most = MOST_BYTES if kind is Kind.REQUESTS else _MOST_HEADER_BYTES
    if length > most or end > len(data) or end % _ALIGNMENT:
        raise WireError(f"a header of {length} bytes does not fit {len(data)} bytes")
    return kind, end


def _read_columns(data: bytes, begin: int, layout: Layout, rows: int) -> dict[str, Numbers]:
    """Return the columns as views into the datagram.

    Raises:
        WireError: The datagram is shorter or longer than they are.
    """
    columns: dict[str, Numbers] = {}
    at = begin
    for name, code in layout:
        kind = _CODES[code]
        end = at + rows * kind.itemsize
        if end > len(data):
            raise WireError(f"column {name}: {rows} rows do not fit {len(data)} bytes")
        columns[name] = np.frombuffer(data, kind, rows, at)
        at = end + -end % _ALIGNMENT
    if len(data) > at:
        raise WireError(f"{len(data) - at} bytes follow the last column")
    return columns


def _read_requests(header: TapHeader, value: object) -> Message:
    """Return the requests of a header.

    Raises:
        HeaderError: They are no list.
    """
    if not isinstance(value, list) or len(value) > _MOST_LISTED:
        raise HeaderError(f"requests is not a list of at most {_MOST_LISTED}")
    parsed = [parse_request(one) for one in value]
    requests = tuple(request for request, _ in parsed if request is not None)
    rejects = sum(refused for _, refused in parsed)
    return Message(Kind.REQUESTS, header, requests=requests, rejects=rejects)


def _read_first_tokens(value: object) -> tuple[tuple[FirstToken, ...], int]:
    """Return the first tokens of a header and how many of them were refused."""
    if value is None:
        return (), 0
    lists = [_listed(value, name) for name in ("engine", "wall_us", "ttft_us")]
    count = len(lists[0])
    if any(len(one) != count for one in lists):
        return (), 1
    found = tuple(
        FirstToken(whole(engine, 254), wall_us, ttft_us)
        for engine, wall, ttft in zip(*lists, strict=True)
        if (wall_us := whole(wall, _LAST_US)) is not None
        and (ttft_us := whole(ttft, _LONGEST_TTFT_US)) is not None
    )
    return found, count - len(found)


def _listed(value: object, name: str) -> list[object]:
    one = value.get(name) if isinstance(value, dict) else None
    return one[:_MOST_LISTED] if isinstance(one, list) else []
