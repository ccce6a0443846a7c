"""What a tap costs in line, counted by the tap itself: a histogram of its own nanoseconds."""

from __future__ import annotations

_BUCKET_SHIFT = 8  # buckets of 256 ns: fine beside a bar of 20 us, and 1024 of them reach 262 us
_BUCKETS = 1024


class InlineCost:
    """Counts durations; one thread adds, another may summarise at any time."""

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self._most_ns = 0

    def add(self, cost_ns: int) -> None:
        """Count one call."""
        bucket = cost_ns >> _BUCKET_SHIFT
        self._counts[bucket if bucket < _BUCKETS else -1] += 1
        self._most_ns = max(self._most_ns, cost_ns)

    def summary_us(self) -> list[float]:
        """Return [p50, p99, max, count], microseconds; quantiles are their bucket's upper edge."""
        counts = list(self._counts)
        total = sum(counts)
        if not total:
            return [0.0, 0.0, 0.0, 0]
        most = self._most_ns / 1e3
        quantiles = [min(_edge_us(counts, total * share), most) for share in (0.5, 0.99)]
        return [*(round(value, 2) for value in (*quantiles, most)), total]


def _edge_us(counts: list[int], rank: float) -> float:
    """Return the upper edge of the bucket that holds the rank; endless for the last one."""
    below = 0
    for bucket, count in enumerate(counts[:-1]):
        below += count
        if below >= rank:
            return ((bucket + 1) << _BUCKET_SHIFT) / 1e3
    return float("inf")
