"""Classic histograms: what a page shows, how much it grew, and what looks wrong about it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

REPAIRED = "repaired_monotony"
FELL = "counter_fell"
BORN = "born_in_window"
MIXED = "mixed_bounds"
_LARGEST = 2.0**63
_ROUNDING = 1e-6  # 1.001 s is 1000999.9999999999 us


class NotCumulativeError(Exception):
    """The buckets are no cumulative histogram: +Inf holds less than some other bucket."""


@dataclass(frozen=True, slots=True)
class Cumulative:
    """A histogram as exposed, since its process began.

    Attributes:
        bounds: Inclusive upper bounds in the family's unit, ascending, +Inf left out.
        counts: Observations up to each bound, never falling; one longer, +Inf last.
        total: Sum of the observations in the family's unit; None where the page has none.
        repaired: The page's counts did fall somewhere and were raised to the running maximum.
    """

    bounds: tuple[int, ...]
    counts: tuple[int, ...]
    total: int | None
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Growth:
    """What was observed in a window.

    Attributes:
        bounds: As in `Cumulative`.
        counts: Observations per bucket, not cumulative; one longer than bounds.
        total: Their sum in the family's unit; None when unknown.
        flags: What looks wrong.
    """

    bounds: tuple[int, ...]
    counts: tuple[int, ...]
    total: int | None
    flags: frozenset[str] = frozenset()

    @property
    def observations(self) -> int:
        """Observations in the window."""
        return sum(self.counts)


def read_cumulative(
    buckets: Mapping[float, float | None],
    observations: float | None,
    total: float | None,
    scale: float,
) -> Cumulative | None:
    """Return a histogram with its buckets in order of their bounds.

    Args:
        buckets: Cumulative count by ``le``, in any order, as a page has them.
        observations: The ``_count`` series; stands in for a missing +Inf.
        total: The ``_sum`` series.
        scale: Multiplies bounds and sum into the family's unit.

    Returns:
        None when the page ends before +Inf and ``_count``: nobody knows how many there were.

    Raises:
        NotCumulativeError: +Inf holds less than some other bucket.
    """
    counts = {bound: _whole(value) for bound, value in buckets.items()}
    known = {
        bound: count
        for bound, count in counts.items()
        if count is not None and (bound == math.inf or _fits(bound * scale))
    }
    everything = known.pop(math.inf, _whole(observations))
    if everything is None:
        return None
    if known and everything < max(known.values()):
        raise NotCumulativeError
    # bounds that fall on one integer are one bucket: the last of them holds the others
    merged = {math.floor(bound * scale + _ROUNDING): known[bound] for bound in sorted(known)}
    raw = (*merged.values(), everything)
    rising = tuple(accumulate(raw, max))
    return Cumulative(tuple(merged), rising, _scaled(total, scale), repaired=rising != raw)


def grow(before: Cumulative | None, now: Cumulative) -> Growth:
    """Return what was added since ``before``, or since zero when that is None.

    Counts that fell mean that counting began anew: growth is then since zero too. Where a bucket
    stands on one of the pages only (its line was refused), the bounds that both have are used.
    """
    if before is not None and before.bounds != now.bounds:
        shared = tuple(sorted(set(before.bounds) & set(now.bounds)))
        before, now = _restrict(before, shared), _restrict(now, shared)
    if before is not None and _fell(before, now):
        growth = grow(None, now)
        return Growth(growth.bounds, growth.counts, growth.total, growth.flags | {FELL})
    base = before.counts if before is not None else (0,) * len(now.counts)
    raw = tuple(count - old for count, old in zip(now.counts, base, strict=True))
    rising = tuple(accumulate(raw, max))
    flags = {REPAIRED} if now.repaired or rising != raw else set[str]()
    per_bucket = (rising[0], *(high - low for low, high in pairwise(rising)))
    return Growth(now.bounds, per_bucket, _sum_since(before, now), frozenset(flags))


def add(growths: Sequence[Growth]) -> Growth:
    """Return the sum of several growths, at least one; those with other bounds are left out."""
    first = growths[0]
    alike = [growth for growth in growths if growth.bounds == first.bounds]
    flags = frozenset().union(*(growth.flags for growth in growths))
    if len(alike) < len(growths):
        flags |= {MIXED}
    totals = [growth.total for growth in alike]
    total = None if None in totals else sum(one for one in totals if one is not None)
    counts = tuple(map(sum, zip(*(growth.counts for growth in alike), strict=True)))
    return Growth(first.bounds, counts, total, flags)


def suspect(growth: Growth) -> frozenset[str]:
    """Return what a person should know before trusting quantiles of this growth.

    ``all_in_lowest`` and ``all_in_one``: quantiles are only known to lie in that bucket.
    ``mean_above_top``: the mean contradicts every quantile that the finite bounds allow.
    ``zero_sum``: observations without any duration, which is an engine's bug (vllm#6337).
    """
    observations = growth.observations
    if not observations or not growth.bounds:
        return growth.flags
    return growth.flags | set(_doubts(growth, observations))


def _doubts(growth: Growth, observations: int) -> Iterable[str]:
    if growth.counts[0] == observations:
        yield "all_in_lowest"
    elif observations > 1 and max(growth.counts) == observations:
        yield "all_in_one"
    if growth.total is not None:
        if growth.total / observations > growth.bounds[-1]:
            yield "mean_above_top"
        if growth.total == 0 and growth.bounds[0] > 0:
            yield "zero_sum"


def _restrict(histogram: Cumulative, bounds: tuple[int, ...]) -> Cumulative:
    """Return the same histogram with fewer buckets."""
    at = dict(zip(histogram.bounds, histogram.counts[:-1], strict=True))
    counts = (*(at[bound] for bound in bounds), histogram.counts[-1])
    return Cumulative(bounds, counts, histogram.total, repaired=histogram.repaired)


def _fell(before: Cumulative, now: Cumulative) -> bool:
    return any(new < old for old, new in zip(before.counts, now.counts, strict=True))


def _sum_since(before: Cumulative | None, now: Cumulative) -> int | None:
    if before is None:
        return now.total
    if now.total is None or before.total is None or now.total < before.total:
        return None
    return now.total - before.total


def _whole(value: float | None) -> int | None:
    return round(value) if value is not None and value >= 0 and _fits(value) else None


def _scaled(value: float | None, scale: float) -> int | None:
    return round(value * scale) if value is not None and _fits(value * scale) else None


def _fits(number: float) -> bool:
    """Return whether an int64 holds it; NaN and infinity are held by none."""
    return abs(number) < _LARGEST
