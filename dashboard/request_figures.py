"""The figures of Requests: how many, how soon, how steady, and what servers added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboard import formats
from dashboard.exact_latency import LEVELS
from dashboard.request_rows import Stall
from dashboard.request_words import latency_or
from dashboard.sheets import Figure, Sheet

_SEVERAL = 1.05
"""Tokens per output from which one is not the other."""


def figures_sheet(
    totals: Mapping[str, Any],
    itl: tuple[str, float, float, str] | None,
    per_token: Mapping[str, Any] | None,
    stall: Stall | str,
) -> Sheet:
    """Return the figures of the range.

    Args:
        totals: Counts and quantiles of the requests.
        itl: Name of the engine with the longest tail, its p50, p99 and level; None without any.
        per_token: The p99 of that engine per token, where that is another figure.
        stall: What servers added, or why that is not known.
    """
    found = [_requests(totals), _ttft(totals), _without_queue(totals), _tpot(totals)]
    if itl is not None:
        found.append(_itl(itl))
    if per_token is not None and per_token["tokens_per_output"] > _SEVERAL:
        found.append(_per_token(per_token))
    found.append(_stall(stall))
    return Sheet(figures=found)


def _requests(totals: Mapping[str, Any]) -> Figure:
    """Return how many requests ended."""
    bad = [
        f"{formats.number(totals[name])} {name}" for name in ("aborted", "failed") if totals[name]
    ]
    return Figure(
        "Requests",
        formats.number(totals["requests"]),
        formats.joined(bad) or "ended in this range",
        "Requests that ended in this range and told of it: by middleware, plugin or trace.",
    )


def _ttft(totals: Mapping[str, Any]) -> Figure:
    """Return time to first token."""
    return Figure(
        "TTFT p99",
        latency_or(totals["ttft_us_p99"], "not known"),
        f"p50 {latency_or(totals['ttft_us_p50'])}, queue inside",
        "Arrival at the server to the first token.",
    )


def _without_queue(totals: Mapping[str, Any]) -> Figure:
    """Return time to first token without the time in the queue."""
    return Figure(
        "without queue",
        latency_or(totals["ttft_without_queue_us_p99"], "not known"),
        f"p50 {latency_or(totals['ttft_without_queue_us_p50'])}",
        "The same less the time in the engine's queue, request by request. Both must be known.",
    )


def _tpot(totals: Mapping[str, Any]) -> Figure:
    """Return time per output token."""
    return Figure(
        "TPOT p99",
        latency_or(totals["tpot_us_p99"], "not known"),
        f"p50 {latency_or(totals['tpot_us_p50'])}, mean per request",
        "First to last token over the tokens after the first: a mean, in which a pause is lost.",
    )


def _itl(itl: tuple[str, float, float, str]) -> Figure:
    """Return inter-token latency of the engine with the longest tail."""
    name, p50, p99, level = itl
    return Figure(
        "ITL p99",
        formats.latency(p99),
        f"p50 {formats.latency(p50)}, {name}",
        f"Per output, from {LEVELS[level]}, right to within 1 %.",
    )


def _per_token(found: Mapping[str, Any]) -> Figure:
    """Return the p99 per token where an output has several."""
    return Figure(
        "per token p99",
        formats.latency(found["value_us"]),
        f"{formats.number(found['tokens_per_output'])} tokens an output",
        "The pause before an output shared evenly by its tokens.",
    )


def _stall(stall: Stall | str) -> Figure:
    """Return what servers added to pauses."""
    tip = (
        "Pauses of clients less the engine's longest gap in the same time, less what the way to "
        "the client always adds: requests held up, times how long."
    )
    if isinstance(stall, str):
        return Figure("Server stall", "not known", stall, tip)
    if stall.stall_us is None:
        return Figure("Server stall", "not known", "steps or tokens are missing", tip)
    longest = f"longest {formats.latency(stall.longest_stall_us or 0)}"
    return Figure(
        "Server stall", formats.duration(stall.stall_us), longest if stall.stall_us else "", tip
    )
