"""Whether counters hold packet headers: counted bytes over copied bytes, for known copies."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from lab.hardware.answer import Answer
from lab.hardware.counters import Count, Counter, find_counter
from lab.hardware.load import Load
from lab.hardware.subject import Subject
from lab.quantity import show_bytes

QUESTION = "Do the counters hold headers, or payload only?"
SIZES = (64 << 20, 1 << 20, 64 << 10, 4 << 10)
_MOST_BYTES = 1 << 30
"""In one go: a counter of 32 bits may wrap once, not twice."""
_MOST_COPIES = 4_096
_REPEATS = 3
_HEADERS_RATIO = 1.02
"""With 256-byte payloads, headers add 9 %; a clock or a start of a program adds far less."""


class Share(NamedTuple):
    """Counted bytes over copied bytes.

    Attributes:
        same: In the direction of the copies.
        opposite: In the other one: requests of reads, and acknowledgements.
    """

    same: float
    opposite: float


def examine(subject: Subject) -> Answer:
    """Answer it; see `lab.hardware.answer.Examine` for errors."""
    counter, load = find_counter(subject.device), subject.need_load()
    shares = {
        (direction, size): _measure(counter, load, direction, size)
        for direction in ("rx", "tx")
        for size in SIZES
    }
    head = ("copies", "of", "counted / copied", "opposite direction / copied")
    names = {"rx": "H2D", "tx": "D2H"}
    rows = [
        [names[direction], show_bytes(size), f"{share.same:.4f}", f"{share.opposite:.4f}"]
        for (direction, size), share in shares.items()
    ]
    verdict = judge(shares["rx", SIZES[0]].same, shares["tx", SIZES[0]].same)
    return Answer(QUESTION, f"{verdict} ({counter.name}).", head, rows)


def judge(rx: float, tx: float) -> str:
    """Return what the shares of the largest copies say."""
    told = f"{rx:.3f} (H2D) and {tx:.3f} (D2H) bytes counted per byte of large copies"
    if min(rx, tx) >= _HEADERS_RATIO:
        return f"Headers are counted: {told}"
    if max(rx, tx) < _HEADERS_RATIO and min(rx, tx) > 2 - _HEADERS_RATIO:
        return f"Payload only: {told}"
    return f"Not the same for both directions, or bytes are missed: {told}"


def _measure(counter: Counter, load: Load, direction: str, size: int) -> Share:
    count = max(1, min(_MOST_COPIES, _MOST_BYTES // size))
    load.copy(direction, size, 1)  # buffers are made at the first copy of a size
    shares = []
    for _ in range(_REPEATS):
        before = counter.read()
        copied = load.copy(direction, size, count).size_bytes
        shares.append(_share(before, counter.read(), direction, copied))
    return Share(
        statistics.median(share.same for share in shares),
        statistics.median(share.opposite for share in shares),
    )


def _share(before: Count, after: Count, direction: str, copied: int) -> Share:
    rx, tx = (after.rx - before.rx) / copied, (after.tx - before.tx) / copied
    return Share(rx, tx) if direction == "rx" else Share(tx, rx)
