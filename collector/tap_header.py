"""The head of a tap's datagram: who sends, when, how many, and what was lost before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.tap_json import text, whole

_MOST_ROWS = 2**17  # no datagram of 128 KiB has more
_LAST_US = 2**62
_MOST_COLUMNS = 64
_PAIR = 2
_MOST_COUNT = 2**53  # the largest integer that every JSON writer keeps exact


class HeaderError(ValueError):
    """A header lacks something that no datagram is of use without."""


@dataclass(frozen=True, slots=True)
class TapHeader:
    """What a datagram says of itself.

    Attributes:
        session: Names one life of a tap; a restarted one has another.
        sequence: Counts the datagrams of a session and kind, from 0.
        rows: Rows of its columns; for requests, how many there are.
        wall_us: When it was closed, on the sender's wall clock.
        mono_us: The same moment on the sender's monotonic clock.
        dropped: Records the tap has dropped since its start.
        tap: Version of the tap.
        pid: The sender's process as it sees itself; in a container that is another number.
        server: Index of the API server; None where there is one only.
        port: Where the server answers; None when the tap was not told.
        engine_version: Version of the engine.
        model: Served model name.
    """

    session: str
    sequence: int
    rows: int
    wall_us: int
    mono_us: int
    dropped: int
    tap: str | None
    pid: int | None
    server: int | None
    port: int | None
    engine_version: str | None
    model: str | None


def parse_header(values: Mapping[str, object]) -> TapHeader:
    """Return a header from its JSON object; unknown keys are ignored.

    Raises:
        HeaderError: One of session, sequence, rows, wall_us, mono_us is missing or out of range.
    """
    session = text(values.get("session"), 64)
    if session is None:
        raise HeaderError("the header has no session")
    return TapHeader(
        session=session,
        sequence=_needed(values, "sequence", _MOST_COUNT),
        rows=_needed(values, "rows", _MOST_ROWS),
        wall_us=_needed(values, "wall_us", _LAST_US),
        mono_us=_needed(values, "mono_us", _LAST_US),
        dropped=whole(values.get("dropped"), _MOST_COUNT) or 0,
        tap=text(values.get("tap"), 64),
        pid=whole(values.get("pid"), 2**31),
        server=whole(values.get("server"), 65_535),
        port=whole(values.get("port"), 65_535) or None,
        engine_version=text(values.get("engine_version"), 64),
        model=text(values.get("model"), 256),
    )


def parse_layout(value: object, codes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return (name, code) of each column in the order they are packed.

    Args:
        value: What the header says.
        codes: The codes there are.

    Raises:
        HeaderError: Not a list of such pairs, or a name that comes twice.
    """
    if not isinstance(value, list) or len(value) > _MOST_COLUMNS:
        raise HeaderError(f"columns is not a list of at most {_MOST_COLUMNS} pairs")
    layout = []
    for pair in value:
        if not isinstance(pair, list) or len(pair) != _PAIR or pair[1] not in codes:
            raise HeaderError(f"columns holds {str(pair)[:40]}, not a name and one of its codes")
        layout.append((str(pair[0])[:64], str(pair[1])))
    if len({name for name, _ in layout}) != len(layout):
        raise HeaderError("columns names one column twice")
    return tuple(layout)


def _needed(values: Mapping[str, object], name: str, most: int) -> int:
    number = whole(values.get(name), most)
    if number is None:
        raise HeaderError(f"the header has no {name} from 0 to {most}")
    return number
