"""The gaps that the middleware stamped against those that clients saw, request by request.

Server and clients share one machine and so one monotonic clock: the difference between a chunk's
arrival and its stamp is how long it was on its way, and no gap may differ by more than that.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.live.stream import Timings
from lab.quantity import rank, show_us
from lab.report import Check
from stallscope.storage.reader import Lake
from stallscope.units import NS_PER_US

_ROUNDING_US = 200
"""Stamps are cut to microseconds, and the collector turns monotonic times into wall times anew at
each poll: a wall clock that is slewed by NTP moves them by up to 500 ppm of a chunk's age."""
_ROWS = """
SELECT named.name, gap.wall_us, gap.itl_us
FROM token_gap AS gap
JOIN (SELECT DISTINCT request, name FROM request_name) AS named USING (request)
WHERE coalesce(gap.tokens_in_output, 1) > 0
ORDER BY named.name, gap.chunk_index"""


@dataclass(frozen=True, slots=True)
class Stamp:
    """One chunk as the middleware saw it.

    Attributes:
        wall_us: When it was sent.
        gap_us: The pause before it; None for the first.
    """

    wall_us: int
    gap_us: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides of all chunks.

    Attributes:
        requests: How many requests were compared.
        incomplete: Requests of which the lake lacks chunks, or has too many.
        delays_us: How long each chunk was on its way to the client.
        differences_us: The client's gap less the server's, for each chunk but the first.
        beyond: Gaps that differ by more than their chunks were on their way.
    """

    requests: int
    incomplete: int
    delays_us: Sequence[int]
    differences_us: Sequence[int]
    beyond: int

    @property
    def lag_us(self) -> int:
        """Return how long it took nearly every chunk to get to its client."""
        return round(rank(self.delays_us, 0.99)) if self.delays_us else 0


def read_stamps(lake: Path) -> Mapping[str, list[Stamp]]:
    """Return the chunks with output of each request, by the engine's id of it."""
    found: dict[str, list[Stamp]] = {}
    with Lake(lake).connect(tables=["token_gap", "request_name"]) as connection:
        for name, wall_us, gap_us in connection.execute(_ROWS).fetchall():
            found.setdefault(name, []).append(Stamp(wall_us, gap_us))
    return found


def wall_offset_us() -> int:
    """Return wall time less monotonic time: the largest of some looks, as a pause shrinks it."""
    looks = (time.time_ns() - time.monotonic_ns() for _ in range(5))
    return max(looks) // NS_PER_US


def compare(
    stamps: Mapping[str, Sequence[Stamp]], requests: Sequence[Timings], offset_us: int
) -> Comparison:
    """Return how the two sides agree.

    Args:
        stamps: The server's, by request id.
        requests: The clients'.
        offset_us: Wall time less monotonic time.
    """
    delays: list[int] = []
    differences: list[int] = []
    incomplete = beyond = 0
    for request in requests:
        sent = stamps.get(request.request_id, ())
        if len(sent) != len(request.chunks_us):
            incomplete += 1
            continue
        own = [
            arrived + offset_us - stamp.wall_us
            for arrived, stamp in zip(request.chunks_us, sent, strict=True)
        ]
        delays += own
        for place, gap_us in enumerate(request.gaps_us, start=1):
            stamped_us = sent[place].gap_us
            difference = gap_us - stamped_us if stamped_us is not None else gap_us
            differences.append(difference)
            beyond += abs(difference) > max(own[place - 1], own[place]) + _ROUNDING_US
    return Comparison(len(requests), incomplete, delays, differences, beyond)


def check_gaps(name: str, found: Comparison) -> list[Check]:
    """Return whether all chunks are there and all gaps agree, with the figures."""
    sizes = [abs(difference) for difference in found.differences_us]
    early = sum(delay < -_ROUNDING_US for delay in found.delays_us)
    delay = _show("on its way", found.delays_us)
    return [
        Check(
            f"{name}: every chunk of every request",
            found.incomplete == 0 and bool(found.delays_us),
            f"{found.requests} requests, {found.incomplete} incomplete, "
            f"{len(found.delays_us):,} chunks",
        ),
        Check(
            f"{name}: no chunk arrives before it is sent",
            early == 0,
            f"{early} of {len(found.delays_us):,}; {delay}",
        ),
        Check(
            f"{name}: gaps agree within the delay",
            found.beyond == 0 and bool(sizes),
            f"{found.beyond} of {len(sizes):,} differ by more; {_show('|difference|', sizes)}",
        ),
    ]


def _show(what: str, values: Sequence[int]) -> str:
    p50, p99 = rank(values, 0.5), rank(values, 0.99)
    return f"{what} p50 {show_us(p50)}, p99 {show_us(p99)}, max {show_us(max(values, default=0))}"
