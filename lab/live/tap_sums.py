"""Whether the taps' rows account for every token: sums over the lake against the engine's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.live.own_figures import OwnFigures, growth
from lab.live.stream import Timings
from lab.report import Check
from stallscope.storage.reader import Lake

_TABLES = ("engine_step", "first_token", "token_gap", "request", "source_health")
_SUMS = {
    "step tokens": "sum(generation_tokens) FROM engine_step WHERE true",
    "step outputs": "sum(outputs) FROM engine_step WHERE true",
    "step prompt tokens": "sum(prefill_tokens) FROM engine_step WHERE true",
    "preemptions": "sum(preempted) FROM engine_step WHERE true",
    "outliers": "count(*) FROM engine_step WHERE outlier",
    "first tokens": "count(*) FROM first_token WHERE true",
    "chunks": "count(*) FROM token_gap WHERE coalesce(tokens_in_output, 1) > 0",
    "chunk tokens": "sum(tokens_in_output) FROM token_gap WHERE true",
    "step requests": "count(*) FROM request WHERE level = 'step'",
    "step request tokens": "sum(output_tokens) FROM request WHERE level = 'step'",
    "gap requests": "count(*) FROM request WHERE level = 'gap'",
    "gap request tokens": "sum(output_tokens) FROM request WHERE level = 'gap'",
    "lost": "sum(dropped + rejects) FROM source_health"
    " WHERE source IN ('engine_steps', 'token_gaps')",
}

Sums = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Span:
    """What was done in a stretch of load, by the engine's and its clients' own count.

    Attributes:
        own: Growth of the engine's counters.
        observed: How many observations the engine's histograms had, by family.
        requests: What clients saw.
        counted: Those of them that asked for the token counts with every chunk.
    """

    own: Mapping[str, int]
    observed: Mapping[str, int]
    requests: Sequence[Timings]
    counted: Sequence[Timings] = ()


def read_sums(lake: Path, since_us: int = 0) -> Sums:
    """Return the sums over all rows since a wall-clock time."""
    columns = ", ".join(f"(SELECT {text} AND wall_us >= {since_us})" for text in _SUMS.values())
    with Lake(lake).connect(tables=_TABLES) as connection:
        (found,) = connection.execute(f"SELECT {columns}").fetchall()
    return {name: int(value or 0) for name, value in zip(_SUMS, found, strict=True)}


def make_span(
    before: OwnFigures,
    after: OwnFigures,
    requests: Sequence[Timings],
    *,
    counted: Sequence[Timings] = (),
) -> Span:
    """Return what the engine and its clients say of the time between two quiet moments.

    Args:
        before: The engine's figures before.
        after: The engine's figures after.
        requests: What clients saw in between.
        counted: Those of them that asked for the token counts with every chunk.
    """
    observed = {
        family: growth(before.buckets.get(family, {}), buckets)["+Inf"]
        for family, buckets in after.buckets.items()
    }
    return Span(growth(before.counters, after.counters), observed, requests, counted)


def check_sums(span: Span, rows: Sums) -> list[Check]:
    """Return a check per sum that has to agree exactly.

    Args:
        span: What was done.
        rows: Sums over the lake since its begin.
    """
    own, requests = span.own, span.requests
    computed = own["prompt_tokens"] - own.get("cached_all", 0)
    finished = sum(count for name, count in own.items() if name.startswith("requests_"))
    answers = _count_tokens(requests)
    chunks = sum(len(request.chunks_us) for request in requests)
    expected = {
        "step tokens": ("engine", own["generation_tokens"]),
        "step outputs": ("engine", span.observed["itl_us"]),
        "step prompt tokens": ("engine", computed),
        "preemptions": ("engine", own.get("preemptions", 0)),
        "first tokens": ("engine", span.observed["ttft_us"]),
        "step requests": ("engine", finished),
        "step request tokens": ("engine", own["generation_tokens"]),
        "gap requests": ("clients", len(requests)),
        "gap request tokens": ("clients", answers),
        "chunks": ("clients", chunks),
        "chunk tokens": ("clients", _count_tokens(span.counted)),
        "lost": ("allowed", 0),
    }
    return [
        Check(f"taps, {name}", rows[name] == value, f"{who} {value:,}, lake {rows[name]:,}")
        for name, (who, value) in expected.items()
    ]


def _count_tokens(requests: Sequence[Timings]) -> int:
    return sum(request.output_tokens for request in requests)
