"""KV-cache hit ratio per engine and tier over the last minute, from counter growth only.

The engine's own hit-rate gauges are never used: they are known to stick (LMCache/LMCache#1260).
The same figure in SQL is view kv_hit; a test holds both equal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stallscope.exposition.latest import Row

WINDOW_US = 60_000_000


@dataclass(frozen=True, slots=True)
class Basis:
    """Two columns of engine_metrics that make a ratio.

    Attributes:
        hits: Prompt tokens found in the tier.
        queries: Prompt tokens that could have been found.
    """

    hits: str
    queries: str


def _by_tier(name: str) -> Basis:
    return Basis(f"cached_{name}_delta", "prompt_tokens_delta")


TIERS: Mapping[str, tuple[Basis, ...]] = {
    "device": (_by_tier("device"), Basis("prefix_hits_delta", "prefix_queries_delta")),
    "host": (_by_tier("host"),),
    "disk": (_by_tier("disk"),),
    "p2p": (_by_tier("p2p"),),
    "external": (_by_tier("external"), Basis("external_hits_delta", "external_queries_delta")),
}
"""Per tier, best basis first. Counts by tier exist since vLLM 0.32; older engines only tell the
prefix cache on the GPU and the connector as a whole. One basis at a time, never both."""
_COLUMNS = frozenset(
    column for bases in TIERS.values() for basis in bases for column in (basis.hits, basis.queries)
)


@dataclass(slots=True)
class _Window:
    """Scrapes of one engine, oldest first."""

    rows: deque[tuple[int, Row]] = field(default_factory=deque)

    def add(self, taken_us: int, row: Row) -> None:
        self.rows.append((taken_us, {name: row.get(name) for name in _COLUMNS}))
        self.forget(taken_us)

    def forget(self, now_us: int) -> None:
        while self.rows and self.rows[0][0] <= now_us - WINDOW_US:
            self.rows.popleft()

    def ratio(self, bases: tuple[Basis, ...]) -> float | None:
        told = [(basis, row) for _, row in self.rows if (basis := _basis_of(row, bases))]
        newest = told[-1][0] if told else None
        hits = sum(_number(row.get(basis.hits)) for basis, row in told if basis == newest)
        queries = sum(_number(row.get(basis.queries)) for basis, row in told if basis == newest)
        # More hits than queries happens (vllm-project/vllm#25780, #43736). The lake has such rows
        # with a flag; a bare number cannot carry one, so there is none.
        return hits / queries if queries and hits <= queries else None


class HitRatios:
    """Hit ratios of all engines."""

    def __init__(self) -> None:
        self._windows: dict[object, _Window] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows of engine_metrics, oldest first."""
        for row in rows:
            if isinstance(taken_us := row["mono_us"], int):
                self._windows.setdefault(row["engine"], _Window()).add(taken_us, row)

    def of(self, engine: object, now_us: int) -> Mapping[str, float]:
        """Return the ratio of each tier; a tier in which nothing was looked up is left out.

        Args:
            engine: Engine id.
            now_us: Monotonic time: the end of the minute.
        """
        window = self._windows.get(engine, _Window())
        window.forget(now_us)
        ratios = ((tier, window.ratio(bases)) for tier, bases in TIERS.items())
        return {tier: ratio for tier, ratio in ratios if ratio is not None}


def _basis_of(row: Row, bases: tuple[Basis, ...]) -> Basis | None:
    """Return the best basis that this engine version offers."""
    return next((basis for basis in bases if row.get(basis.hits) is not None), None)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
