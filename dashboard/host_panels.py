"""Panels of the host: disks and pressure. They work without any engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from analytics.decimation import extremes
from dashboard import formats
from dashboard.charts import Panel, Trace, gaps_of, largest, last_known, on_windows
from dashboard.data import columns
from dashboard.device_traces import LINES, DeviceTraces
from dashboard.ranges import Range
from dashboard.sampling import covered, spacing_us
from stallscope.units import US_PER_MS

TABLES = ("block_device", "host_pressure")
_GAUGES = ("read_await_mean_us", "write_await_mean_us", "queue_mean")
_PRESSURES = (
    ("memory_some_ratio", "memory", "rest", ""),
    ("cpu_some_ratio", "CPU", "main", "host_cpu"),
    ("io_some_ratio", "I/O", "main", ""),
)


@dataclass(frozen=True, slots=True)
class _Disks(DeviceTraces):
    """Extremes of all disks per window, and their names by device id."""

    names: Mapping[int, str]


def host_panels(
    connection: duckdb.DuckDBPyConnection, disks: Mapping[int, str], span: Range
) -> list[Panel]:
    """Return the panels of disks and pressure.

    Args:
        connection: Sees block_device and host_pressure, or their rollups.
        disks: Names by device id.
        span: Range to show.
    """
    read = _read_disks(connection, disks, span)
    return [_latency(read), _queue(read), _pressure(connection, span)]


def _read_disks(
    connection: duckdb.DuckDBPyConnection, names: Mapping[int, str], span: Range
) -> _Disks:
    """Return the extremes of every disk."""
    windows = span.windows(spacing_us(connection, "block_device", span))
    sql = extremes(
        span.source("block_device"),
        "device",
        _GAUGES,
        step_us=windows.step_us,
        since_us=windows.start_us,
        until_us=span.until_us,
    )
    found = columns(connection, sql)
    gaps = gaps_of(windows, covered(found, windows), span.until_us, "no reading of any disk")
    return _Disks(windows, found, gaps, names)


def _latency(disks: _Disks) -> Panel:
    """Return the panel of disk latency: reads of the hottest disks, and writes of the hottest."""
    order = disks.hottest("read_await_mean_us")
    scale = 1 / US_PER_MS
    traces = []
    if order[LINES:]:
        traces.append(disks.band("read_await_mean_us", order[LINES:], scale))
    traces += [
        disks.trace(
            "write_await_mean_us", device, scale, f"{_name(disks, device)} write", style="second"
        )
        for device in order[:1]
    ]
    traces += _hottest_last(
        disks, order, "read_await_mean_us", scale, colour="nvme_latency", suffix=" read"
    )
    return Panel(
        key="disk_latency",
        title="Disk latency",
        unit="ms, mean of completed",
        sub="hottest first",
        height=60,
        windows=disks.windows,
        traces=traces,
        floor=0.5,
        gaps=disks.gaps,
        missing="nothing done",
        reason="" if order else "no disk was read in this range",
        alt=_disk_alt("Disk latency", traces, "ms"),
    )


def _hottest_last(
    disks: _Disks, order: Sequence[int], gauge: str, scale: float, *, colour: str, suffix: str
) -> list[Trace]:
    """Return the lines of the hottest disks, the hottest on top: it is drawn last, in colour."""
    lines = [
        disks.trace(
            gauge,
            device,
            scale,
            _name(disks, device) + suffix,
            colour=colour if place == 0 else "",
            bold=place == 0,
            style="main" if place == 0 else "rest",
        )
        for place, device in enumerate(order[:LINES])
    ]
    return lines[::-1]


def _queue(disks: _Disks) -> Panel:
    """Return the panel of disk queues."""
    order = disks.hottest("queue_mean")
    traces = [disks.band("queue_mean", order[LINES:], 1.0)] if order[LINES:] else []
    traces += _hottest_last(disks, order, "queue_mean", 1.0, colour="nvme_queue", suffix="")
    return Panel(
        key="disk_queue",
        title="Disk queue",
        unit="mean length",
        sub="",
        height=50,
        windows=disks.windows,
        traces=traces,
        floor=4,
        gaps=disks.gaps,
        reason="" if order else "no disk was read in this range",
        alt=_disk_alt("Disk queue", traces, "requests"),
    )


def _name(disks: _Disks, device: int) -> str:
    """Return a disk's name, short where the namespace says nothing."""
    name = disks.names.get(device, f"disk {device}")
    return name.removesuffix("n1") if name.startswith("nvme") else name


def _disk_alt(title: str, traces: Sequence[Trace], unit: str) -> str:
    """Return a disk panel in one sentence."""
    if not traces:
        return f"{title}: nothing was read in this range."
    hot = traces[-1]
    peak, now = largest(hot.high), last_known(hot.high)
    if peak is None or now is None:
        return f"{title}: {hot.label} completed nothing in this range."
    return (
        f"{title}: {hot.label} is the hottest, {formats.number(now)} {unit} now, "
        f"{formats.number(peak)} {unit} at its peak."
    )


def _pressure(connection: duckdb.DuckDBPyConnection, span: Range) -> Panel:
    """Return the panel of pressure stall information of the whole host."""
    windows = span.windows(spacing_us(connection, "host_pressure", span))
    gauges = tuple(gauge for gauge, *_ in _PRESSURES)
    found = columns(
        connection,
        extremes(
            span.source("host_pressure"),
            "scope",
            gauges,
            step_us=windows.step_us,
            since_us=windows.start_us,
            until_us=span.until_us,
            only="scope = 'system'",
        ),
    )
    traces = [
        Trace(
            label,
            on_windows(windows, found["wall_us"], found[f"{gauge}_high"], 100),
            on_windows(windows, found["wall_us"], found[f"{gauge}_low"], 100),
            style=style,
            colour=colour,
            bold=gauge == "io_some_ratio",
        )
        for gauge, label, style, colour in _PRESSURES
    ]
    known = any(last_known(trace.high) is not None for trace in traces)
    parts = [f"{t.label} {formats.number(last_known(t.high) or 0)} %" for t in traces]
    return Panel(
        key="pressure",
        title="Pressure",
        unit="% of time, some task stalled",
        sub="",
        height=54,
        windows=windows,
        traces=traces,
        floor=5,
        gaps=gaps_of(windows, covered(found, windows), span.until_us, "no reading"),
        reason="" if known else "this kernel gives no pressure figures, see Data health",
        alt=f"Pressure now: {', '.join(parts)} of the time." if known else "No pressure figures.",
    )
