"""Requests, pauses and classes as tables; what can be picked opens or narrows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dashboard import formats, state
from dashboard.exact_latency import LEVELS
from dashboard.request_data import AT_MOST, CANDIDATES
from dashboard.request_rows import ORDERS, Asked, Class, Pause, Request, Stretch
from dashboard.request_words import class_name, ended, latency_or, meanwhile, tokens
from dashboard.sheets import Cell, Head, Link, Row, Sheet, Table
from stallscope.units import US_PER_SECOND

_AROUND_US = 20 * US_PER_SECOND


def slowest_sheet(
    found: Sequence[Request], asked: Asked, names: Mapping[int, str], now_us: int
) -> Sheet:
    """Return the slowest requests.

    Args:
        found: The requests, the slowest first.
        asked: What the reader wants to see.
        names: Engines by id.
        now_us: The present.
    """
    order = next(word for word, column in ORDERS.items() if column == asked.order)
    heads = (
        Head("Request", wide=True),
        Head("Ended"),
        Head("Context", num=True),
        Head("First token", num=True),
        Head("Per token", num=True),
        Head("End to end", num=True),
        Head("Answer", num=True),
    )
    return Sheet(
        title="Slowest requests",
        aside=f"by {order}",
        table=Table(
            heads,
            tuple(_request_row(request, names, now_us) for request in found),
            "No request told of its end in this range: that needs the middleware or plugin.",
        ),
    )


def _request_row(request: Request, names: Mapping[int, str], now_us: int) -> Row:
    """Return one request."""
    queue = "" if request.queue_us is None else f"{formats.latency(request.queue_us)} queued"
    cached = "" if request.cached_tokens is None else f"{tokens(request.cached_tokens)} cached"
    preempted = f", preempted {formats.times(request.preemptions)}" if request.preemptions else ""
    return Row(
        (
            Cell(
                str(request.request),
                f"{names.get(request.engine, request.engine)} {request.route or ''}".strip(),
                pick={state.REQUEST: str(request.request)},
            ),
            Cell(formats.clock(request.wall_us, now_us), ended(request) + preempted),
            Cell(tokens(request.prompt_tokens), cached),
            Cell(latency_or(request.ttft_us), queue),
            Cell(latency_or(request.tpot_us)),
            Cell(latency_or(request.e2e_us)),
            Cell(tokens(request.output_tokens), "tokens"),
        )
    )


def pauses_sheet(
    found: Sequence[Pause], asked: Asked, names: Mapping[int, str], now_us: int
) -> Sheet:
    """Return the longest pauses one by one.

    Args:
        found: The pauses, the longest first.
        asked: What the reader wants to see.
        names: Engines by id.
        now_us: The present.
    """
    heads = (
        Head("Pause", num=True),
        Head("Ended"),
        Head("Request", wide=True),
        Head("Meanwhile", wide=True),
    )
    picky = bool(asked.context or asked.route)
    among = f", among the {formats.number(CANDIDATES)} longest of all" if picky else ""
    return Sheet(
        title="Longest pauses",
        aside=f"{_levels(found)}{among}",
        table=Table(
            heads,
            tuple(_pause_row(pause, names, now_us) for pause in found),
            "No pause is known one by one in this range: that needs the plugin or the middleware.",
        ),
        links=[Link("Open as SQL", "sql", _pauses_query(asked))] if found else [],
    )


def _levels(found: Sequence[Pause]) -> str:
    """Return what the pauses are known from."""
    kinds = formats.joined(sorted({LEVELS[pause.level] for pause in found}))
    return f"from {kinds}" if kinds else ""


def _pause_row(pause: Pause, names: Mapping[int, str], now_us: int) -> Row:
    """Return one pause."""
    what, more = meanwhile(pause)
    who = str(names.get(pause.engine, pause.engine))
    if pause.request is None:
        whose = Cell(who, formats.count(pause.outputs, "request"))
    else:
        others = f" and {formats.count(pause.outputs - 1, 'other')}" if pause.outputs > 1 else ""
        whose = Cell(str(pause.request), f"{who}{others}", pick={state.REQUEST: str(pause.request)})
    return Row(
        (
            Cell(formats.latency(pause.itl_us)),
            Cell(formats.clock(pause.wall_us, now_us)),
            whose,
            Cell(what, more, tone="warn" if what == "not the engine" else ""),
        )
    )


def _pauses_query(asked: Asked) -> str:
    """Return the SQL behind the table, for the SQL page."""
    engine = "" if asked.engine is None else f", only_engine := {asked.engine.id}"
    return (
        "SELECT time, engine, level, itl_us / 1000 AS pause_ms,\n"
        "       engine_itl_us / 1000 AS engine_ms, prefill_tokens, preempted,\n"
        "       request, chunk_index, context_class, route\n"
        f"FROM slowest_gaps(\n    {asked.span.since_us}, {asked.span.until_us}, "
        f"at_most := {AT_MOST}, together_us := 100000{engine}\n)"
    )


def stretches_sheet(found: Sequence[Stretch], names: Mapping[int, str], now_us: int) -> Sheet:
    """Return where in a long range the longest pauses are; picking one zooms to it.

    Args:
        found: Windows, those with the longest pauses first.
        names: Engines by id.
        now_us: The present.
    """
    heads = (Head("Longest pause", num=True), Head("In the window from"), Head("Engine", wide=True))
    return Sheet(
        title="Longest pauses",
        aside="by window; pick one to see its pauses one by one",
        table=Table(
            heads,
            tuple(_stretch_row(stretch, names, now_us) for stretch in found),
            "No pause is known one by one in this range: that needs the plugin or the middleware.",
        ),
    )


def _stretch_row(stretch: Stretch, names: Mapping[int, str], now_us: int) -> Row:
    """Return one window."""
    around = {
        state.SINCE: str(stretch.wall_us - _AROUND_US),
        state.UNTIL: str(stretch.wall_us + stretch.step_us + _AROUND_US),
    }
    return Row(
        (
            Cell(formats.latency(stretch.longest_us), pick=around),
            Cell(formats.clock(stretch.wall_us, now_us)),
            Cell(
                str(names.get(stretch.engine, stretch.engine)),
                f"{formats.count(stretch.observations, 'pause')} from {LEVELS[stretch.level]}",
            ),
        )
    )


def classes_sheet(found: Sequence[Class], asked: Asked) -> Sheet:
    """Return the requests by class of context length and route.

    Args:
        found: The classes, those with most requests first.
        asked: What the reader wants to see.
    """
    heads = (
        Head("Context"),
        Head("Route", wide=True),
        Head("Requests", num=True),
        Head("TTFT p99", num=True),
        Head("ITL p99", num=True),
        Head("TPOT p99", num=True),
        Head("Output tokens", num=True),
    )
    whole = "whatever class and route is chosen above" if asked.context or asked.route else ""
    return Sheet(
        title="By context and route",
        aside=whole,
        table=Table(heads, tuple(_class_row(one) for one in found), "No request told of its end."),
    )


def _class_row(one: Class) -> Row:
    """Return one class."""
    bad = one.failed + one.aborted
    queue = one.ttft_without_queue_p99_us
    return Row(
        (
            Cell(class_name(one.context_class)),
            Cell(one.route or "not told"),
            Cell(
                formats.number(one.requests), f"{formats.number(bad)} not to the end" if bad else ""
            ),
            Cell(
                latency_or(one.ttft_p99_us),
                f"{formats.latency(queue)} without queue" if queue is not None else "",
            ),
            Cell(
                latency_or(one.itl_p99_us),
                f"of {formats.number(one.gaps)}" if one.gaps else "",
            ),
            Cell(latency_or(one.tpot_p99_us), f"p50 {latency_or(one.tpot_p50_us)}"),
            Cell(tokens(one.output_tokens)),
        )
    )
