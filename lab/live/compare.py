"""The lake's figures against the engine's own, exactly, and against what clients saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from analytics.catalog import library_statements
from lab.live.own_figures import OwnFigures, growth
from lab.live.stream import Timings
from lab.quantity import rank, show_us
from lab.report import Check
from stallscope.storage.reader import Lake
from stallscope.units import US_PER_MS, US_PER_SECOND

_LEAST_LAG_US = 5 * US_PER_MS
"""A client sees a token when two event loops have passed it on: p50 0.8 ms, at most 23 ms measured
on two cores. So much may its quantile lie outside the server's bucket, or as much as is measured:
the server's clocks are blind to what happens in its own frontend."""
_TABLES = ("engine_metrics", "engine_histogram", "engine")
_MODULES = ("histogram_quantile",)


def compare_counters(lake: Path, before: OwnFigures, after: OwnFigures) -> list[Check]:
    """Return a check per counter: total as exposed, and growth added up over all scrapes."""
    grown = growth(before.counters, after.counters)
    with Lake(lake).connect(tables=_TABLES) as connection:
        return [
            _counter_check(connection, stem, after.counters[stem], grown[stem])
            for stem in after.counters
        ]


def _counter_check(
    connection: duckdb.DuckDBPyConnection, stem: str, total: int, grown: int
) -> Check:
    query = f"SELECT max({stem}_total), sum({stem}_delta) FROM engine_metrics"
    lake_total, lake_grown = connection.execute(query).fetchall()[0]
    detail = f"engine {total:,} (grew {grown:,}), lake {lake_total:,} (grew {lake_grown:,})"
    return Check(f"counter {stem}", (lake_total, lake_grown) == (total, grown), detail)


def compare_histograms(lake: Path, before: OwnFigures, after: OwnFigures) -> list[Check]:
    """Return a check per histogram: the growth of every bucket."""
    with Lake(lake).connect(tables=_TABLES) as connection:
        return [
            _histogram_check(
                connection, family, growth(before.buckets.get(family, {}), after.buckets[family])
            )
            for family in after.buckets
        ]


def _histogram_check(
    connection: duckdb.DuckDBPyConnection, family: str, grown: Mapping[str, int]
) -> Check:
    found = _cumulative(connection, family)
    scale = US_PER_SECOND if family.endswith("_us") else 1
    expected = {
        None if bound == "+Inf" else round(float(bound) * scale): count
        for bound, count in grown.items()
    }
    total = expected[None]
    same = total == 0 if not found else found == expected
    seen = found.get(None, 0)
    detail = f"{len(grown)} buckets, engine {total:,}, lake {seen:,} observations"
    if not same and found:
        wrong = [bound for bound in expected if found.get(bound) != expected[bound]]
        detail += f"; {len(wrong)} buckets differ"
    return Check(f"histogram {family}", same, detail)


def _cumulative(connection: duckdb.DuckDBPyConnection, family: str) -> dict[int | None, int]:
    """Return observations up to each bound; None stands for +Inf. Added up here, not in SQL."""
    rows = connection.execute(
        "SELECT bounds, counts FROM engine_histogram WHERE family = ?", [family]
    ).fetchall()
    totals: dict[int | None, int] = {}
    for bounds, counts in rows:
        seen = 0
        for bound, count in zip([*bounds, None], counts, strict=True):
            seen += count
            totals[bound] = totals.get(bound, 0) + seen
    return totals


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of load.

    Attributes:
        name: For people.
        requests: What clients saw of those that were served.
        since_us: Wall-clock begin.
        until_us: Wall-clock end, its last scrape included.
        judged: Whether clients can be held against the server: not under a load that keeps both
            cores busy, where chunks wait in the frontend and arrive in bunches.
    """

    name: str
    requests: Sequence[Timings]
    since_us: int
    until_us: int
    judged: bool


def compare_clients(lake: Path, phase: Phase, lag_us: int) -> list[Check]:
    """Return whether client-side quantiles lie in the lake's bucket intervals.

    Args:
        lake: The lake.
        phase: What clients saw.
        lag_us: How long a chunk took to get to its client, as measured.
    """
    requests = phase.requests
    seen = {
        "ttft_us": [r.ttft_us for r in requests],
        "itl_us": [gap for r in requests for gap in r.gaps_us],
        "e2e_us": [r.end_us - r.start_us for r in requests],
    }
    tables = ("engine_metrics", "engine_histogram")
    with Lake(lake).connect(tables=tables, library=library_statements(*_MODULES)) as connection:
        rows = connection.execute(
            "SELECT family, quantile, lower_bound, upper_bound FROM histogram_quantile("
            f"['ttft_us', 'itl_us', 'e2e_us'], [0.5, 0.99], {phase.since_us}, {phase.until_us})"
            " ORDER BY family, quantile"
        ).fetchall()
    return [
        replace(
            _client_check(
                f"{phase.name}: {family} p{q * 100:g}",
                rank(seen[family], q),
                interval,
                max(lag_us, _LEAST_LAG_US),
            ),
            judged=phase.judged,
        )
        for family, q, *interval in rows
    ]


def _client_check(name: str, client: float, interval: Sequence[int | None], lag_us: int) -> Check:
    low, high = interval[0] or 0, interval[1]
    inside = low <= client and (high is None or client <= high)
    near = low - lag_us <= client and (high is None or client <= high + lag_us)
    where = "inside" if inside else f"outside by up to {show_us(lag_us)}, the client's lag"
    upper = "no limit" if high is None else show_us(high)
    detail = f"client {show_us(client)}, lake {show_us(low)} to {upper}"
    return Check(name, near, f"{detail}: {where if near else 'outside'}")


def compare_tokens(requests: Sequence[Timings], before: OwnFigures, after: OwnFigures) -> Check:
    """Return whether the clients' own token counts add up to the engine's growth."""
    grown = growth(before.counters, after.counters)
    prompt = sum(request.prompt_tokens for request in requests)
    output = sum(request.output_tokens for request in requests)
    same = (prompt, output) == (grown["prompt_tokens"], grown["generation_tokens"])
    detail = f"clients {prompt:,} prompt and {output:,} output tokens in {len(requests)} requests"
    return Check("clients' token counts", same, detail)
