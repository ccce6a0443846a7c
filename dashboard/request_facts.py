"""One request in words and figures, above its timeline."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dashboard import formats, state
from dashboard.request_life import Life
from dashboard.request_words import class_name, ended, latency_or, tokens
from dashboard.sheets import Cell, Figure, Head, Link, Paragraph, Row, Sheet, Table
from stallscope.units import US_PER_SECOND

_BACK = Link("All requests", pick={state.REQUEST: ""})
_AROUND_US = 10 * US_PER_SECOND
_LONGEST = 8


def facts_sheet(life: Life, engine: str, now_us: int) -> Sheet:
    """Return what is known of a request.

    Args:
        life: The request.
        engine: Name of its engine.
        now_us: The present.
    """
    request = life.request
    return Sheet(
        title=f"Request {request.request}",
        aside=life.name,
        text=[Paragraph((_sentence(life, engine, now_us),), "" if life.ended else "Running")],
        figures=_figures(life),
        links=[_BACK, _around(life), Link("Open as SQL", "sql", _query(life))],
        arrives=True,
    )


def _around(life: Life) -> Link:
    """Return the way to all requests and pauses of its time."""
    windows = life.windows
    around = {
        state.REQUEST: "",
        state.SINCE: str(windows.start_us - _AROUND_US),
        state.UNTIL: str(windows.end_us + _AROUND_US),
    }
    return Link("All pauses of that time", pick=around)


def _sentence(life: Life, engine: str, now_us: int) -> str:
    """Return who it was, when, and how it ended."""
    request = life.request
    if not life.ended:
        newest = formats.clock(request.wall_us, now_us)
        return f"On {engine}. Its newest chunk left at {newest}; it has not told of its end."
    route = f", {request.route}" if request.route else ""
    prompt = "" if request.prompt_tokens is None else f", {tokens(request.prompt_tokens)} tokens"
    began = (
        ""
        if request.arrival_wall_us is None
        else f" Arrived {formats.clock(request.arrival_wall_us, now_us)}."
    )
    longest = _longest(life)
    return (
        f"On {engine}{route}, context {class_name(request.context_class)}{prompt}.{began} "
        f"Ended {formats.clock(request.wall_us, now_us)}: {ended(request)}.{longest}"
    )


def _longest(life: Life) -> str:
    """Return how much of its time its longest pause was."""
    if not life.has_chunks:
        return ""
    pauses = life.chunks["itl_us"].astype(np.float64)
    if np.isnan(pauses).all():
        return ""
    place = int(np.nanargmax(pauses))
    own = float(life.chunks["engine_itl_us"].astype(np.float64)[place])
    meanwhile = (
        "what the engine did then is not known"
        if np.isnan(own)
        else f"the engine's longest gap in it was {formats.latency(own)}"
    )
    return f" Its longest pause: {formats.latency(float(pauses[place]))}; {meanwhile}."


def _figures(life: Life) -> list[Figure]:
    """Return its times and counts."""
    request = life.request
    if not life.ended:
        return [Figure("Chunks", formats.number(len(life.chunks["wall_us"])), "so far")]
    clock = "" if request.ttft_clock is None else f", {request.ttft_clock} clock"
    found = [
        Figure("First token", latency_or(request.ttft_us), f"after arrival{clock}"),
        Figure("Queue", latency_or(request.queue_us), "engine's clock"),
        Figure("without queue", latency_or(request.ttft_without_queue_us), "to the first token"),
        Figure("Prefill", latency_or(request.prefill_us), "engine's clock"),
        Figure("End to end", latency_or(request.e2e_us), "arrival to end"),
        Figure("Per token", latency_or(request.tpot_us), _BASIS.get(request.tpot_basis or "", "")),
        Figure("Answer", tokens(request.output_tokens), _chunks(life)),
        Figure("Cached", tokens(request.cached_tokens), "prompt tokens"),
        Figure("Preempted", _times(request.preemptions), "by the engine"),
    ]
    return [figure for figure in found if figure.value != formats.DASH]


_BASIS = {"e2e - ttft": "first to last", "decode": "engine's clock"}
"""Where the mean time per token is taken from."""


def _times(count: int | None) -> str:
    """Return how often, or a dash."""
    return formats.DASH if count is None else "never" if not count else formats.times(count)


def _chunks(life: Life) -> str:
    """Return in how many chunks the answer came."""
    chunks = life.request.chunks
    return "tokens" if chunks is None else f"tokens in {formats.number(chunks)} chunks"


def _query(life: Life) -> str:
    """Return the SQL behind the timeline, for the SQL page."""
    windows = life.windows
    return (
        "SELECT time, chunk_index, itl_us / 1000 AS pause_ms, tokens_in_output,\n"
        "       engine_itl_us / 1000 AS engine_ms, prefill_tokens, preempted\n"
        f"FROM request_timeline(\n    {life.request.request}, since_us := {windows.start_us}, "
        f"until_us := {windows.end_us}, of_engine := {life.request.engine}\n)"
    )


def pauses_sheet(life: Life) -> Sheet:
    """Return its longest pauses one by one.

    Args:
        life: The request.
    """
    heads = (
        Head("Pause", num=True),
        Head("After its first token", num=True),
        Head("Tokens", num=True),
        Head("Engine's longest gap then", num=True),
        Head("Prompt tokens computed then", num=True),
        Head("Preempted then", num=True),
    )
    chunks = {name: values.astype(np.float64) for name, values in life.chunks.items()}
    order = np.argsort(-np.nan_to_num(chunks["itl_us"]), kind="stable")[:_LONGEST]
    rows = tuple(_pause_row(chunks, int(place)) for place in order if chunks["itl_us"][place] > 0)
    return Sheet(title="Its longest pauses", table=Table(heads, rows, "It has no pause."))


def _pause_row(chunks: Mapping[str, npt.NDArray[np.float64]], place: int) -> Row:
    """Return one pause."""
    pause, own = chunks["itl_us"][place], chunks["engine_itl_us"][place]
    after = chunks["wall_us"][place] - pause - chunks["wall_us"][0]
    apart = not np.isnan(own) and own < pause / 2
    return Row(
        (
            Cell(formats.latency(float(pause))),
            Cell(formats.latency(float(after))),
            Cell(_known(chunks["tokens_in_output"][place])),
            Cell(
                "not known" if np.isnan(own) else formats.latency(float(own)),
                "not the engine" if apart else "",
                tone="warn" if apart else "",
            ),
            Cell(_known(chunks["prefill_tokens"][place])),
            Cell(_known(chunks["preempted"][place])),
        )
    )


def _known(value: float) -> str:
    """Return a count, or a dash for a missing one."""
    return formats.DASH if np.isnan(value) else formats.number(float(value))


def nothing_sheet(asked: str) -> Sheet:
    """Return that a request is not known.

    Args:
        asked: What the URL says.
    """
    return Sheet(
        title="Request not found",
        text=[
            Paragraph(
                (
                    "The lake knows nothing of request ",
                    {"b": asked[:40]},
                    ". Rows of single requests are kept for 24 h unless set otherwise.",
                )
            )
        ],
        links=[_BACK],
        arrives=True,
    )
