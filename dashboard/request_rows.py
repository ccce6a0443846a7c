"""What the reader of Requests may ask for, and the rows of the SQL library that answer."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.engines import Engine
from dashboard.ranges import Range

ORDERS = {"end to end": "e2e_us", "first token": "ttft_us", "per token": "tpot_us"}
"""What requests are ranked by, in words, and its column."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the reader wants to see.

    Attributes:
        span: The range.
        engine: One engine, None for all.
        context: A class of context length, empty for all.
        route: A route, empty for all.
        order: Column that requests are ranked by.
    """

    span: Range
    engine: Engine | None = None
    context: str = ""
    route: str = ""
    order: str = "e2e_us"

    @property
    def bounds(self) -> dict[str, object]:
        """Return the parameters that every query has."""
        return {
            "since": self.span.since_us,
            "until": self.span.until_us,
            "engine": None if self.engine is None else self.engine.id,
        }


@dataclass(frozen=True, slots=True)
class Level:
    """What one level tells of an engine's inter-token latency, see macro itl_levels."""

    engine: int
    level: str
    observations: int
    coverage_ratio: float
    is_best: bool


@dataclass(frozen=True, slots=True)
class Request:
    """A request that ended, see macro requests."""

    wall_us: int
    engine: int
    request: int
    levels: str
    arrival_wall_us: int | None
    route: str | None
    context_class: str | None
    prompt_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    preemptions: int | None
    chunks: int | None
    status: int | None
    finish: str | None
    ttft_us: int | None
    ttft_clock: str | None
    queue_us: int | None
    ttft_without_queue_us: int | None
    prefill_us: int | None
    decode_us: int | None
    e2e_us: int | None
    tpot_us: float | None
    tpot_basis: str | None


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause before an output, see macro slowest_gaps."""

    wall_us: int
    engine: int
    level: str
    itl_us: int
    request: int | None
    outputs: int
    route: str | None
    context_class: str | None
    steps: int | None
    engine_itl_us: int | None
    prefill_tokens: int | None
    preempted: int | None
    load_bytes: int | None
    store_bytes: int | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """A window of a long range with one of its longest pauses.

    Attributes:
        wall_us: Its begin.
        step_us: Its length.
        longest_us: The longest pause in it, right to within 1 %.
    """

    wall_us: int
    step_us: int
    engine: int
    level: str
    longest_us: float
    observations: int


@dataclass(frozen=True, slots=True)
class Class:
    """Requests of one class of context length and route, see macro requests_by_class."""

    context_class: str | None
    route: str | None
    requests: int
    failed: int
    aborted: int
    output_tokens: int | None
    ttft_p50_us: int | None
    ttft_p99_us: int | None
    ttft_without_queue_p99_us: int | None
    tpot_p50_us: float | None
    tpot_p99_us: float | None
    gaps: int | None
    itl_p99_us: int | None


@dataclass(frozen=True, slots=True)
class Stall:
    """What the server between engine and client added, see macro api_server_stall."""

    engine: int
    gaps: int
    matched: int
    stall_us: int | None
    longest_stall_us: int | None
