"""The first line of Now: who, how bad, against what; or what is missing for an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from analytics.quantiles import Interval
from dashboard import formats
from dashboard.present import DiskNow, EngineNow, Present

Run = str | Mapping[str, str]
"""A run of text; ``{"b": ...}`` is set in bold."""

STALE_AFTER_US = 3_000_000
_JUST_NOW_US = 5_000_000
_ENOUGH = 100
"""Below this many observations the p99 is the slowest of them, and is called so."""


@dataclass(frozen=True, slots=True)
class Banner:
    """A line across the page.

    Attributes:
        kind: fine, worse, stale or quiet; chooses colour and shape.
        word: The state in a word or two.
        text: What to say.
        link: (text, page) of a button, or None.
    """

    kind: str
    word: str
    text: tuple[Run, ...]
    link: tuple[str, str] | None = None

    def as_data(self) -> dict[str, Any]:
        """Return the banner as the component reads it."""
        return {
            "kind": self.kind,
            "word": self.word,
            "text": list(self.text),
            "link": list(self.link) if self.link else None,
        }


@dataclass(frozen=True, slots=True)
class Usual:
    """What the last minute is held against.

    Attributes:
        label: The range in words, for example ``15 min``.
        tails: p99 of inter-token latency over the range by engine id.
    """

    label: str
    tails: Mapping[int, Interval] = field(default_factory=dict)


def known(interval: Interval) -> str:
    """Return a quantile in words: a figure where there is one, else the interval."""
    if interval.value_us is not None:
        return formats.latency(interval.value_us)
    return formats.interval(interval.lower_us, interval.upper_us)


def minute_words(until_us: int, now_us: int) -> str:
    """Return how to call the minute that the figures cover."""
    if now_us - until_us <= _JUST_NOW_US:
        return "last minute"
    return f"minute to {formats.clock(until_us, now_us)}"


def banners(present: Present, usual: Usual, newest_us: int, now_us: int) -> list[Banner]:
    """Return the lines on top of the page, the most urgent first."""
    stale = now_us - newest_us > STALE_AFTER_US
    answer = _answer(present, usual, minute_words(present.until_us, now_us))
    if not stale:
        return [answer]
    return [stale_banner(newest_us, now_us), Banner("old", "Last known", answer.text)]


def stale_banner(newest_us: int, now_us: int) -> Banner:
    """Return what stands on top of a page whose data has stopped."""
    return Banner(
        "stale",
        f"Stale, {formats.duration(now_us - newest_us)}",
        (
            {"b": f"The collector stopped sending at {formats.clock(newest_us, now_us)}."},
            " Everything below is the state of that moment.",
        ),
        ("Data health", "data-health"),
    )


def _answer(present: Present, usual: Usual, minute: str) -> Banner:
    """Return the answer line."""
    if not present.engines:
        return _no_engine(present)
    worst = present.engines[0]
    if worst.tail is None:
        names = formats.joined([now.engine.name for now in present.engines])
        return Banner(
            "fine",
            "Idle",
            (
                {"b": names},
                f" answered every scrape, but served no request in the {minute}.",
                _disk_words(present.disks),
            ),
        )
    worse = is_worse(worst.tail, usual.tails.get(worst.engine.id))
    return Banner(
        "worse" if worse else "fine",
        "Longer than usual" if worse else "Measured",
        (*_tail_words(worst, present, usual, minute), _disk_words(present.disks), _NO_SLO),
    )


_NO_SLO = " No SLO is set: measured, not judged."


def _tail_words(worst: EngineNow, present: Present, usual: Usual, minute: str) -> tuple[Run, ...]:
    """Return who has the longest tail, and how long it is over the range."""
    tail = worst.tail
    assert tail is not None  # noqa: S101 - for the type checker
    who = " has the longest tail: " if present.engines[1:] else ": "
    which = "p99" if tail.observations >= _ENOUGH else f"slowest of {tail.observations}"
    usually = usual.tails.get(worst.engine.id)
    against = f", {known(usually)} over {usual.label}" if usually else ""
    first = worst.quantiles.get(("ttft_us", 0.99))
    ttft = f" TTFT p99 {known(first)}." if first else ""
    return (
        {"b": worst.engine.name},
        who,
        f"ITL {which} ",
        {"b": known(tail)},
        f" in the {minute}{against}.{ttft}",
    )


def is_worse(now: Interval, usual: Interval | None) -> bool:
    """Return whether a tail is longer than usual beyond doubt: the intervals do not even touch."""
    if usual is None or now.observations < _ENOUGH:
        return False
    if (now.level == "gap") != (usual.level == "gap"):
        return False  # what clients see is longer than what the engine sees, tap or no tap
    if now.value_us is not None and usual.value_us is not None:
        return now.value_us > 1.5 * usual.value_us
    return usual.upper_us is not None and now.lower_us >= usual.upper_us


def _disk_words(disks: tuple[DiskNow, ...]) -> str:
    """Return the slowest disk in words; empty when none was read or none did anything."""
    if not disks or (read_us := disks[0].read_us) is None:
        return ""
    disk = disks[0]
    queue = "" if disk.queue is None else f" at a queue of {formats.number(round(disk.queue, 1))}"
    return f" Slowest disk reads: {disk.name}, {formats.latency(read_us)} mean{queue}."


def _no_engine(present: Present) -> Banner:
    """Return what is measured when there is no engine."""
    measured = []
    if present.disks:
        measured.append(formats.count(len(present.disks), "disk"))
    if any(value is not None for value in present.pressure.values()):
        measured.append("the host's pressure")
    if not measured:
        return Banner(
            "quiet",
            "Nothing yet",
            (
                {"b": "The collector runs, but no source has delivered a row."},
                " Data health says why, source by source.",
            ),
            ("Data health", "data-health"),
        )
    return Banner(
        "quiet",
        "No engine found",
        (
            {"b": "No engine answers on this host."},
            f" Measured here: {formats.joined(measured)}.{_disk_words(present.disks)}",
            " Engine panels start by themselves as soon as one is found.",
        ),
        ("Find the engine", "data-health"),
    )


def nothing_stored(no_lake: str = "") -> Banner:
    """Return what to say when there is nothing to read.

    Args:
        no_lake: Why the lake cannot be opened; empty when it is there, but empty.
    """
    if no_lake:
        return Banner("quiet", "No data", ({"b": no_lake},))
    return Banner(
        "quiet",
        "Empty",
        (
            {"b": "The lake is empty: no collector has written to it yet."},
            " Start one with ",
            {"code": "stallscope up"},
            "; the first figures are here within seconds.",
        ),
    )
