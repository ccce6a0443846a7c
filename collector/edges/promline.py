r"""One line of an exposition page: series, value, timestamp.

Covers the text format 0.0.4 and OpenMetrics 1.0 (prometheus/docs, exposition_formats.md;
OpenMetrics 1.0, section 5). Where writers differ this reader is tolerant: a comma may end a label
set, label names may start with ``_``, blanks may stand around commas, exponents may have three
digits, quoted names (UTF-8 names of Prometheus 3) are read. In label values ``\\``, ``\"`` and
``\n`` are escapes; after any other backslash both characters are kept, as the official client does.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TypeAlias

_NAME = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")
_QUOTED = rb'"([^"\\]*(?:\\.[^"\\]*)*)"'
_QUOTED_NAME = re.compile(rb"[ \t]*" + _QUOTED + rb"[ \t]*", re.DOTALL)
_LABEL = re.compile(
    rb"[ \t]*(?:([a-zA-Z_][a-zA-Z0-9_]*)|" + _QUOTED + rb")[ \t]*=[ \t]*" + _QUOTED + rb"[ \t]*",
    re.DOTALL,
)
_ESCAPE = re.compile(r'\\([\\n"])')
_UNESCAPED = {"\\": "\\", "n": "\n", '"': '"'}
_LONGEST_NUMBER = 64
_LATEST = 1e15  # in milliseconds the year 33658; more may not fit once it is microseconds

Labels: TypeAlias = tuple[tuple[str, str], ...]


class LineError(Exception):
    """A line cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Head:
    """The part of a line that names its series.

    Attributes:
        name: Metric name as written.
        labels: Name and value of each label, in the order of the line.
        end: Where the rest of the line begins.
    """

    name: str
    labels: Labels
    end: int


@dataclass(frozen=True, slots=True)
class Tail:
    """The part of a line after its series.

    Attributes:
        value: The number; None for NaN, which means "no data" wherever it is printed.
        time: The timestamp as written, in the format's unit; None where there is none.
    """

    value: float | None
    time: float | None


def parse_head(line: bytes, most_labels: int) -> Head:
    """Return the series a line is about.

    Raises:
        LineError: The name or the label set is malformed, or there are more labels than allowed.
    """
    match = _NAME.match(line)
    name = b"" if match is None else match.group()
    end = len(name)
    brace = _skip_blanks(line, end)
    if line[brace : brace + 1] == b"{":
        return _parse_labels(line, name, brace + 1, most_labels)
    if not name:
        raise LineError("no metric name")
    if end == len(line):
        raise LineError("no value")
    if line[end : end + 1] not in {b" ", b"\t"}:
        raise LineError(f"bad character after the name {_shown(name)}")
    return Head(name.decode("ascii"), (), end)


def parse_tail(rest: bytes, *, open_metrics: bool) -> Tail:
    """Return value and timestamp.

    Args:
        rest: What follows the series.
        open_metrics: Whether an exemplar may follow; it is no part of the value and is dropped.

    Raises:
        LineError: There is no number, or something stands behind the timestamp.
    """
    if open_metrics:
        rest = rest.partition(b" # ")[0]
    words = rest.split()
    if not words:
        raise LineError("no value")
    if len(words) > 2:  # noqa: PLR2004 - value and timestamp
        raise LineError(f"text behind the timestamp: {_shown(words[2])}")
    value = parse_number(words[0])
    if len(words) == 1:
        return Tail(value, None)
    time = parse_number(words[1])
    if time is None or abs(time) >= _LATEST:
        raise LineError(f"not a timestamp: {_shown(words[1])}")
    return Tail(value, time)


def parse_number(text: bytes) -> float | None:
    """Return a number as exposition formats write it, None for NaN.

    Raises:
        LineError: Not a number. Python's own ``1_000`` is none, nor is a decimal comma.
    """
    if b"_" in text or len(text) > _LONGEST_NUMBER:
        raise LineError(f"not a number: {_shown(text)}")
    try:
        value = float(text)
    except ValueError:
        raise LineError(f"not a number: {_shown(text)}") from None
    return None if math.isnan(value) else value


def _parse_labels(line: bytes, name: bytes, at: int, most_labels: int) -> Head:
    text = name.decode("ascii")
    if not name:
        text, at = _parse_quoted_name(line, at)
    labels: list[tuple[str, str]] = []
    while line[at : at + 1] != b"}":
        match = _LABEL.match(line, at)
        if match is None:
            at = _skip_blanks(line, at)
            if line[at : at + 1] == b"}":
                break
            raise LineError(f"bad label at column {at + 1}")
        labels.append((_label_name(match), _unescape(match.group(3))))
        if len(labels) > most_labels:
            raise LineError(f"more than {most_labels} labels")
        at = _after_label(line, match.end())
    if len({label for label, _ in labels}) < len(labels):
        raise LineError("a label stands twice")
    return Head(text, tuple(labels), at + 1)


def _parse_quoted_name(line: bytes, at: int) -> tuple[str, int]:
    """Return the name of a line like ``{"http.requests", code="200"} 1``."""
    match = _QUOTED_NAME.match(line, at)
    if match is None or not match.group(1):
        raise LineError("no metric name")
    return _unescape(match.group(1)), _after_label(line, match.end())


def _after_label(line: bytes, at: int) -> int:
    """Return where the next label begins, or the closing brace."""
    character = line[at : at + 1]
    if character == b",":
        return at + 1
    if character == b"}":
        return at
    raise LineError(f"neither comma nor brace behind a label, column {at + 1}")


def _skip_blanks(line: bytes, at: int) -> int:
    while line[at : at + 1] in {b" ", b"\t"}:
        at += 1
    return at


def _label_name(match: re.Match[bytes]) -> str:
    plain: bytes | None = match.group(1)
    return _unescape(match.group(2)) if plain is None else plain.decode("ascii")


def _unescape(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _UNESCAPED[match.group(1)], text)


def _shown(raw: bytes) -> str:
    return repr(raw[:40].decode("utf-8", "replace"))
