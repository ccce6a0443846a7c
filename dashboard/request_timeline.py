"""One request's life as panels: its pauses beside what its engine did in the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dashboard import formats
from dashboard.charts import Gap, Mark, Panel, Trace, Values, figure, on_windows, short
from dashboard.ranges import Range
from dashboard.request_life import Life
from stallscope.units import US_PER_MS

_BEYOND_RATIO, _BEYOND_US = 1.5, 20 * US_PER_MS
"""From here on a pause is longer than the engine's own gaps by more than their noise."""
_MAX_MARKS = 4

Floats = npt.NDArray[np.float64]


def timeline(life: Life, engine: str) -> dict[str, Any]:
    """Return the data of the panels component.

    Args:
        life: The request.
        engine: Name of its engine.
    """
    windows = life.windows
    panels = [
        _pauses(life, engine),
        _prefill(life, engine),
        _requests(life, engine),
        *_copies(life, engine),
    ]
    span = Range(windows.start_us, windows.end_us)
    fine, coarse = (
        f"{formats.number(each.step_us / US_PER_MS)}{formats.NBSP}ms"
        for each in (windows, life.work_windows)
    )
    note = (
        f"UTC, pauses in windows of {fine}, each drawn over the whole time that it lasts; "
        f"the engine in windows of {coarse}."
    )
    return {**figure(panels, _marks(life), span, note), "lane": "Preempted"}


def _pauses(life: Life, engine: str) -> Panel:
    """Return the panel of pauses: what the client waited, and the engine's longest gap then."""
    windows = life.windows
    client = _held(life, "itl_us")
    own = _held(life, "engine_itl_us")
    beyond = client > np.maximum(own * _BEYOND_RATIO, own + _BEYOND_US)
    traces = [
        Trace("engine", _values(own), style="second"),
        Trace("client", _values(client), bold=True, style="p99"),
    ]
    if beyond.any():
        traces.insert(
            0,
            Trace(
                "server",
                _values(np.where(beyond, client, np.nan)),
                _values(np.where(beyond, own, np.nan)),
                colour="api_stall",
                fill=0.4,
                band_only=True,
            ),
        )
    return Panel(
        key="pauses",
        title="Token gaps",
        unit="ms, log",
        sub=f"{engine}, tokens",
        height=120,
        windows=windows,
        traces=traces if life.has_chunks else (),
        log=True,
        stepped=True,
        floor=100,
        missing="none",
        gaps=_before_first(life),
        alt=_pauses_alt(life, engine),
        reason="" if life.has_chunks else _NO_CHUNKS,
    )


_NO_CHUNKS = "Its chunks are not known: no middleware saw the answer, or it came in one piece."


def _held(life: Life, name: str) -> Floats:
    """Return the longest pause of each window in microseconds, NaN where none lasts."""
    windows = life.windows
    held = np.full(windows.count, np.nan)
    pauses, values = life.chunks["itl_us"], life.chunks[name]
    for end_us, pause_us, value in zip(life.chunks["wall_us"], pauses, values, strict=True):
        if np.isnan(pause_us):
            continue
        begin = max(0, int(end_us - pause_us - windows.start_us) // windows.step_us)
        end = min(windows.count, int(end_us - windows.start_us) // windows.step_us + 1)
        held[begin:end] = np.fmax(held[begin:end], value)
    return held


def _values(us: Floats) -> list[float | None]:
    """Return microseconds as milliseconds of a panel."""
    return [short(value / US_PER_MS) for value in us.tolist()]


def _before_first(life: Life) -> list[Gap]:
    """Return the time before the first token: in the queue, as far as that is known, and then."""
    request = life.request
    begin_us = request.arrival_wall_us
    if begin_us is None or not life.has_chunks:
        return []
    first_us = int(life.chunks["wall_us"][0])
    queue_us = request.queue_us
    if queue_us is None:
        return [Gap(begin_us, first_us, "before its first token")]
    queued_us = min(begin_us + queue_us, first_us)
    return [
        Gap(begin_us, queued_us, f"queue, {formats.latency(queue_us)}"),
        Gap(queued_us, first_us, "prefill"),
    ]


def _pauses_alt(life: Life, engine: str) -> str:
    """Return the pauses in one sentence."""
    if not life.has_chunks:
        return f"Pauses of request {life.request.request}: {_NO_CHUNKS}"
    pauses = life.chunks["itl_us"][~np.isnan(life.chunks["itl_us"].astype(np.float64))]
    if not len(pauses):
        return f"Request {life.request.request} on {engine} has one chunk and no pause."
    return (
        f"{formats.count(len(pauses), 'pause')} of request {life.request.request} on {engine}: "
        f"median {formats.latency(float(np.median(pauses)))}, "
        f"longest {formats.latency(float(np.max(pauses)))}."
    )


def _prefill(life: Life, engine: str) -> Panel:
    """Return the panel of prompt tokens that the engine computed in the same steps."""
    values = _of_work(life, "prefill_tokens")
    total = sum(value or 0 for value in values)
    return _panel(
        life,
        ("prefill", "Prefill beside", "prompt tokens", engine),
        [Trace("computed", values, _ground(values), colour="prefill", bold=True, fill=0.5)],
        floor=100,
        alt=f"{engine} computed {formats.number(total)} prompt tokens in that time.",
    )


def _requests(life: Life, engine: str) -> Panel:
    """Return the panel of requests running and waiting."""
    running, waiting = _of_work(life, "running_max"), _of_work(life, "waiting_max")
    most = max((value for value in running if value is not None), default=None)
    alt = "not told" if most is None else f"at most {formats.number(most)} running"
    return _panel(
        life,
        ("requests", "Requests", "count", engine),
        [
            Trace("waiting", waiting, style="second"),
            Trace("running", running, colour="load", bold=True),
        ],
        floor=4,
        alt=f"Requests on {engine} in that time: {alt}.",
    )


def _copies(life: Life, engine: str) -> list[Panel]:
    """Return the panel of KV copies, none where none were told of."""
    loads, stores = _of_work(life, "load_bytes", 1e-6), _of_work(life, "store_bytes", 1e-6)
    if not any(value for value in (*loads, *stores)):
        return []
    traces = [
        Trace("stored", stores, style="second"),
        Trace("loaded", loads, _ground(loads), colour="kv_reload", bold=True, fill=0.4),
    ]
    total = sum(value or 0.0 for value in loads) * 1e6
    alt = f"{engine} booked {formats.disk_bytes(total)} of KV loads in that time."
    return [
        _panel(life, ("copies", "KV copies", "MB, as booked", engine), traces, floor=1, alt=alt)
    ]


def _panel(
    life: Life, words: tuple[str, str, str, str], traces: Sequence[Trace], *, floor: float, alt: str
) -> Panel:
    """Return a panel of the engine's work: (key, title, unit, engine)."""
    key, title, unit, engine = words
    told = len(life.work["wall_us"]) > 0
    return Panel(
        key=key,
        title=title,
        unit=unit,
        sub=engine,
        height=54,
        windows=life.work_windows,
        traces=traces if told else (),
        stepped=True,
        floor=floor,
        missing="no step",
        alt=alt,
        reason="" if told else "No step of the engine is known in that time: it has no plugin.",
    )


def _of_work(life: Life, name: str, scale: float = 1.0) -> list[float | None]:
    """Return a column of the engine's work per window."""
    return on_windows(
        life.work_windows, life.work["wall_us"], life.work[name].astype(np.float64), scale
    )


def _ground(values: Values) -> list[float | None]:
    """Return what an area is filled down to: zero, and nothing where nothing is known."""
    return [None if value is None else 0.0 for value in values]


def _marks(life: Life) -> list[Mark]:
    """Return when the engine preempted requests, the first few of them."""
    preempted = life.work["preempted"].astype(np.float64)
    half_us = life.work_windows.step_us // 2
    return [
        Mark(int(wall_us) + half_us, formats.count(int(count), "request"))
        for wall_us, count in zip(life.work["wall_us"], preempted, strict=True)
        if count > 0
    ][:_MAX_MARKS]
