"""Numbers and times as people read them: one spelling for every page.

Units stand behind a no-break space. Missing is a word, so every function here takes a number and
the caller decides what absence is called.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

NBSP = "\u00a0"
THIN = "\u202f"  # the thin space that does not break
MINUS = "\u2212"
DASH = "\u2013"
TIMES = "\u00d7"
_US_PER_MS = 1_000
_US_PER_S = 1_000_000
_GROUP_FROM = 1_000
_MARKDOWN = "\\`*_{}[]()<>#+-.!|~$:&"


def number(value: float) -> str:
    """Return a number with three significant digits, whole from 100 on.

    Thousands are set apart by a thin space from four digits on, zeros at the end are dropped.
    """
    if not math.isfinite(value):
        return "not a number"
    size = abs(value)
    rounded = round(size, _decimals(size))
    text = f"{rounded:,.{_decimals(rounded)}f}".replace(",", THIN)
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return MINUS + text if value < 0 and rounded else text


def _decimals(size: float) -> int:
    """Return how many decimals give three significant digits."""
    if size == 0 or size >= 100:  # noqa: PLR2004 - three digits stand before the point
        return 0
    return 2 - math.floor(math.log10(size))


def latency(us: float) -> str:
    """Return a latency: milliseconds below 1 s, seconds from there."""
    return f"{number(_in_unit(us, us))}{NBSP}{_latency_unit(us)}"


def interval(lower_us: float, upper_us: float | None) -> str:
    """Return what is known of a latency that lies between two bucket edges.

    Args:
        lower_us: It is larger than this; 0 when there is no lower limit.
        upper_us: It is at most this; None when it lies above the highest bucket.
    """
    low, unit = interval_parts(lower_us, upper_us)
    return f"{low}{NBSP}{unit}"


def interval_parts(lower_us: float, upper_us: float | None) -> tuple[str, str]:
    """Return the figure and the unit of `interval` apart, to be set in two sizes."""
    scale = lower_us if upper_us is None else upper_us
    unit = _latency_unit(scale)
    if upper_us is None:
        return f">{NBSP}{number(_in_unit(lower_us, scale))}", unit
    upper = number(_in_unit(upper_us, scale))
    if lower_us <= 0:
        return f"≤{NBSP}{upper}", unit
    lower = number(_in_unit(lower_us, scale))
    return (upper if lower == upper else f"{lower}{DASH}{upper}"), unit


def _latency_unit(us: float) -> str:
    """Return the unit a latency is read in; what rounds to 1 000 ms is a second."""
    return "ms" if round(abs(us) / _US_PER_MS) < _GROUP_FROM else "s"


def _in_unit(us: float, scale_us: float) -> float:
    """Return a latency in the unit of another."""
    return us / (_US_PER_MS if _latency_unit(scale_us) == "ms" else _US_PER_S)


def duration(us: float) -> str:
    """Return a span of time: ``0.6 s``, ``16 s``, ``4 min 16 s``, ``9 h 09 min``, ``2 d 3 h``."""
    seconds = us / _US_PER_S
    if seconds < 10:  # noqa: PLR2004 - below ten seconds tenths matter
        return f"{number(round(seconds, 1))}{NBSP}s"
    whole = round(seconds)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return _two(days, "d", hour, "h")
    if hours:
        return _two(hours, "h", minute, "min", width=2)
    return _two(minutes, "min", second, "s") if minutes else f"{second}{NBSP}s"


def _two(first: int, first_unit: str, second: int, second_unit: str, *, width: int = 1) -> str:
    """Return a duration of two parts, the second only when it is not zero."""
    text = f"{first}{NBSP}{first_unit}"
    return f"{text}{NBSP}{second:0{width}d}{NBSP}{second_unit}" if second else text


def percent(ratio: float) -> str:
    """Return a ratio of 1 as per cent."""
    return f"{number(ratio * 100)}{NBSP}%"


def times(ratio: float) -> str:
    """Return a ratio as a multiple, with two significant digits."""
    return f"{number(float(f'{ratio:.2g}'))}{TIMES}"


def gib(count: float) -> str:
    """Return bytes of memory."""
    return f"{number(count / (1 << 30))}{NBSP}GiB"


def disk_bytes(count: float) -> str:
    """Return bytes on disk in the unit that keeps the figure short."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= size:
            return f"{number(count / size)}{NBSP}{unit}"
    return f"{number(count)}{NBSP}B"


def clock(wall_us: int, now_us: int) -> str:
    """Return a moment in UTC, the day in front when it is not today's."""
    moment = _utc(wall_us)
    if moment.date() == _utc(now_us).date():
        return f"{moment:%H:%M:%S} UTC"
    return f"{moment.day}{NBSP}{moment:%b %Y, %H:%M:%S} UTC"


def ago(wall_us: int, now_us: int) -> str:
    """Return how long ago a moment was; a moment ahead of us is said to be so."""
    age_us = now_us - wall_us
    if age_us < -_US_PER_S:
        return f"{duration(-age_us)} ahead of this host's clock"
    return f"{duration(max(0, age_us))} ago"


def _utc(wall_us: int) -> datetime:
    """Return a stored moment as a datetime."""
    return datetime.fromtimestamp(wall_us / _US_PER_S, tz=UTC)


def count(value: int, one: str, many: str = "") -> str:
    """Return a count with its noun: ``1 disk``, ``3 disks``."""
    return f"{number(value)}{NBSP}{one if value == 1 else many or one + 's'}"


def joined(words: list[str]) -> str:
    """Return words as prose: ``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:  # noqa: PLR2004 - nothing to join
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def plain(text: str) -> str:
    r"""Return text for a label that Streamlit reads as Markdown, so that nothing in it is markup.

    Names come from engines and URLs: ``![x](http://...)`` in one would load a picture from there.
    """
    return "".join(f"\\{letter}" if letter in _MARKDOWN else letter for letter in text)
