"""The first line of Requests: the longest pause and whose it was, or why nobody can say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dashboard import formats
from dashboard.answers import STALE_AFTER_US, Banner, Run, stale_banner
from dashboard.request_rows import Asked, Level, Pause, Stretch
from dashboard.request_words import blame, class_name
from dashboard.sheets import Cell, Head, Row, Sheet, Table

_HEALTH = ("Data health", "data-health")


def banners(  # noqa: PLR0913 - everything that can make the answer
    asked: Asked,
    levels: Sequence[Level],
    totals: Mapping[str, Any],
    worst: Pause | Stretch | None,
    names: Mapping[int, str],
    *,
    newest_us: int,
    now_us: int,
) -> list[Banner]:
    """Return the lines on top of the page, the most urgent first.

    Args:
        asked: What the reader wants to see.
        levels: What is known of pauses.
        totals: Counts of requests.
        worst: The longest pause, or where it is.
        names: Engines by id.
        newest_us: Time of the newest measurement.
        now_us: The present.
    """
    answer = _answer(asked, levels, totals, worst, names, now_us)
    if now_us - newest_us <= STALE_AFTER_US or asked.span.zoomed:
        return [answer]
    return [stale_banner(newest_us, now_us), Banner("old", "Last known", answer.text)]


def _answer(
    asked: Asked,
    levels: Sequence[Level],
    totals: Mapping[str, Any],
    worst: Pause | Stretch | None,
    names: Mapping[int, str],
    now_us: int,
) -> Banner:
    """Return the answer line."""
    if (asked.context or asked.route) and not totals["requests"]:
        return _none_of_these(asked)
    if is_blind(levels, totals):
        return _blind(levels)
    if worst is None:
        return Banner("fine", "Measured", (*_count(totals), " No pause is known one by one."))
    if isinstance(worst, Stretch):
        return Banner("fine", "Measured", (*_stretch(worst, names, now_us), *_count(totals)))
    return Banner("fine", "Measured", (*_pause(worst, names, now_us), *_count(totals)))


def is_blind(levels: Sequence[Level], totals: Mapping[str, Any]) -> bool:
    """Return whether neither taps nor traces tell of anything in the range."""
    return not totals["requests"] and all(level.level == "scrape" for level in levels)


def _blind(levels: Sequence[Level]) -> Banner:
    """Return that neither taps nor traces tell of anything."""
    known = (
        " The engine's own histograms are on Now."
        if levels
        else " No engine served a request in this time, or none is found."
    )
    first = {"b": "Nothing here tells of single requests or tokens."}
    return Banner("quiet", "No tap", (first, known), _HEALTH)


def _none_of_these(asked: Asked) -> Banner:
    """Return that the filter leaves nothing."""
    parts = [class_name(asked.context)] if asked.context else []
    parts += [asked.route] if asked.route else []
    return Banner(
        "quiet", "None", ({"b": f"No request with {formats.joined(parts)} ended in this time."},)
    )


def _pause(pause: Pause, names: Mapping[int, str], now_us: int) -> tuple[Run, ...]:
    """Return the longest pause in words."""
    who = names.get(pause.engine, f"engine {pause.engine}")
    whose = formats.count(pause.outputs, "client" if pause.level == "gap" else "request")
    return (
        {"b": formats.latency(pause.itl_us)},
        f" is the longest pause between two outputs: {whose} of ",
        {"b": who},
        f", at {formats.clock(pause.wall_us, now_us)}. {blame(pause)}",
    )


def _stretch(stretch: Stretch, names: Mapping[int, str], now_us: int) -> tuple[Run, ...]:
    """Return where the longest pause of a long range is, in words."""
    who = names.get(stretch.engine, f"engine {stretch.engine}")
    span = formats.duration(stretch.step_us)
    return (
        {"b": formats.latency(stretch.longest_us)},
        " is the longest pause between two outputs: ",
        {"b": who},
        f", in the {span} from {formats.clock(stretch.wall_us, now_us)}.",
    )


def _count(totals: Mapping[str, Any]) -> tuple[Run, ...]:
    """Return how many requests ended, and how soon they began."""
    count = totals["requests"]
    if not count:
        return (" No request has told of its end: steps alone know none.",)
    ended = f" {formats.count(count, 'request')} ended"
    if totals["ttft_us_p99"] is None:
        return (f"{ended}.",)
    return (f"{ended}, TTFT p99 {formats.latency(totals['ttft_us_p99'])}.",)


def install_sheet() -> Sheet:
    """Return what would tell of requests and tokens, and how to get it."""
    rows = (
        (
            "Plugin in the engine",
            "every step: exact ITL, first tokens, queue and prefill of each request",
            "pip install --no-deps ./collector/taps/vllm, with the pip of the engine's environment",
        ),
        (
            "Middleware in its server",
            "every token as it leaves: pauses by request, stalls of the server, routes",
            "vllm serve ... --middleware stallscope_vllm.TokenTap, after the install above",
        ),
        (
            "Traces",
            "each request as a whole, of engines that export OpenTelemetry spans",
            "vllm serve ... --otlp-traces-endpoint, and the otlp settings of the collector",
        ),
    )
    return Sheet(
        title="What would tell of them",
        aside="each is useful alone; none of them stores prompts or answers",
        table=Table(
            (Head("Source"), Head("Tells of", wide=True), Head("How", wide=True)),
            tuple(Row(tuple(Cell(text) for text in row)) for row in rows),
        ),
        notes=[("More in ", {"code": "collector/taps/vllm/README.md"}, " of the source tree.")],
    )
