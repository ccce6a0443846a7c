"""Panels of the copy path: how full the links are, what they carry, and the tail above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from analytics.decimation import extremes
from dashboard import formats
from dashboard.charts import Limit, Panel, Trace, gaps_of, largest, last_known, on_windows
from dashboard.copy_path_devices import Devices
from dashboard.copy_path_links import BUSY_RATIO, LinkNow
from dashboard.copy_path_words import LEVELS
from dashboard.data import Columns, columns
from dashboard.device_traces import LINES, DeviceTraces
from dashboard.engines import Engine
from dashboard.ranges import Range
from dashboard.sampling import covered, spacing_us
from stallscope.units import US_PER_MS

LINK_TABLES = ("gpu_link", "pcie_uplink")
_WAYS = (
    ("rx", "H2D saturation", "to the GPU: loads", "h2d_copy", 92),
    ("tx", "D2H saturation", "from the GPU: stores", "d2h_copy", 66),
)
_LINK_GAUGES = (
    "rx_saturation_ratio",
    "tx_saturation_ratio",
    "rx_window_mean_bytes_per_second",
    "tx_window_mean_bytes_per_second",
)
_LIMIT = Limit(BUSY_RATIO * 100, "limit")
_NOTHING_READ = "no reading of any GPU"
_GB = 1e9


@dataclass(frozen=True, slots=True)
class _Links(DeviceTraces):
    """Extremes of all links per window, and what to call them."""

    names: Mapping[int, str]


def link_panels(
    connection: duckdb.DuckDBPyConnection,
    devices: Devices,
    links: Sequence[LinkNow],
    span: Range,
) -> list[Panel]:
    """Return the panels of the GPUs' links, and of shared uplinks where there are some.

    Args:
        connection: Sees gpu_link and pcie_uplink, or their rollups.
        devices: Names by device id.
        links: Links as they are now, for their ceilings.
        span: Range to show.
    """
    found = _read(connection, "gpu_link", _LINK_GAUGES, span, _gpu_names(devices))
    shared = _read(connection, "pcie_uplink", _LINK_GAUGES[:2], span, devices.bridges)
    panels = [_saturation(found, *way) for way in _WAYS]
    panels.append(_rate(found, links))
    if len(shared.found["wall_us"]):
        panels.append(_uplinks(shared))
    return panels


def excess_panel(connection: duckdb.DuckDBPyConnection, engine: Engine, span: Range) -> Panel:
    """Return the panel of the very figure of ITL that is compared with the links.

    Args:
        connection: Sees itl_1s, engine_histogram and the module copy_contention.
        engine: The engine.
        span: A range that is read row by row.
    """
    windows = span.windows()
    found = columns(
        connection,
        "SELECT wall_us, figure, level, itl_us, excess_us FROM itl_excess($since, $until, "
        "step_us := $step, only_engine := $engine)",
        {
            "since": windows.start_us,
            "until": span.until_us,
            "step": windows.step_us,
            "engine": engine.id,
        },
    )
    some = len(found["wall_us"]) > 0
    figure = str(found["figure"][0]) if some else "ITL"
    values = on_windows(windows, found["wall_us"], found["itl_us"], 1 / US_PER_MS)
    trace = Trace(figure, values, style="p99" if figure == "p99" else "main", bold=True)
    newest = last_known(values)
    return Panel(
        key="itl",
        title="Inter-token latency",
        unit=f"ms, {figure}",
        sub=f"{engine.name}, {LEVELS[str(found['level'][0])] if some else 'no requests'}",
        height=80,
        windows=windows,
        traces=[trace],
        floor=10,
        limits=_median(found) if some else (),
        missing="no requests",
        alt=f"Inter-token latency of {engine.name}: {figure} "
        f"{'unknown' if newest is None else formats.number(newest)} ms now.",
    )


def _median(found: Columns) -> tuple[Limit, ...]:
    """Return the line that excess is counted from."""
    median_us = float(found["itl_us"][0] - found["excess_us"][0])
    return (Limit(median_us / US_PER_MS, "median", breach=False),)


def _gpu_names(devices: Devices) -> dict[int, str]:
    """Return the names of GPUs by device id."""
    return {device: gpu.name for device, gpu in devices.gpus.items()}


def _read(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    gauges: Sequence[str],
    span: Range,
    names: Mapping[int, str],
) -> _Links:
    """Return the extremes of every device of a table."""
    windows = span.windows(spacing_us(connection, table, span))
    sql = extremes(
        span.source(table),
        "device",
        gauges,
        step_us=windows.step_us,
        since_us=windows.start_us,
        until_us=span.until_us,
    )
    found = columns(connection, sql)
    gaps = gaps_of(windows, covered(found, windows), span.until_us, _NOTHING_READ)
    return _Links(windows, found, gaps, names)


def _known(links: _Links, gauge: str) -> list[int]:
    """Return the devices whose gauge is known at all, the hottest first."""
    peaks = links.peaks(gauge)
    return [device for device in links.hottest(gauge) if peaks[device] >= 0]


def _lines(links: _Links, gauge: str, scale: float, colour: str) -> list[Trace]:
    """Return the hottest as lines, the very hottest last and in colour, and the rest as a band."""
    order = _known(links, gauge)
    traces = [links.band(gauge, order[LINES:], scale)] if order[LINES:] else []
    hot = [
        links.trace(
            gauge,
            device,
            scale,
            links.names.get(device, f"#{device}"),
            colour=colour if place == 0 else "",
            bold=place == 0,
            style="main" if place == 0 else "rest",
        )
        for place, device in enumerate(order[:LINES])
    ]
    return traces + hot[::-1]


def _saturation(links: _Links, way: str, title: str, sub: str, colour: str, height: int) -> Panel:
    """Return the panel of one direction's saturation."""
    traces = _lines(links, f"{way}_saturation_ratio", 100, colour)
    return Panel(
        key=f"{way}_saturation",
        title=title,
        unit="% of achievable",
        sub=sub,
        height=height,
        windows=links.windows,
        traces=traces,
        top=100,
        limits=(_LIMIT,),
        gaps=links.gaps,
        missing="not measured",
        reason="" if traces else _why_none(links, "saturation"),
        alt=_alt(title, traces, "% of what is achievable"),
    )


def _why_none(links: _Links, what: str) -> str:
    """Return why there is nothing to draw."""
    if not len(links.found["wall_us"]):
        return "no GPU was read in this range"
    return f"no link's {what} is known in this range: Links says why"


def _alt(title: str, traces: Sequence[Trace], unit: str) -> str:
    """Return a panel in one sentence: its hottest device now and at its peak."""
    if not traces:
        return f"{title}: nothing was measured in this range."
    hot = traces[-1]
    peak, now = largest(hot.high), last_known(hot.high)
    if peak is None or now is None:
        return f"{title}: nothing was measured in this range."
    return (
        f"{title}: {hot.label} is the hottest, {formats.number(now)} {unit} now, "
        f"{formats.number(peak)} {unit} at its peak."
    )


def _rate(links: _Links, now: Sequence[LinkNow]) -> Panel:
    """Return the panel of the rates of the GPU with the highest one."""
    order = _known(links, "rx_window_mean_bytes_per_second")
    device = order[0] if order else None
    traces = []
    if device is not None:
        traces = [
            links.trace(
                f"{way}_window_mean_bytes_per_second",
                device,
                1 / _GB,
                label,
                colour=colour,
                bold=way == "rx",
            )
            for way, label, colour in (("tx", "D2H", "d2h_copy"), ("rx", "H2D", "h2d_copy"))
        ]
    name = "" if device is None else links.names.get(device, f"#{device}")
    return Panel(
        key="rate",
        title="Rate",
        unit="GB/s",
        sub=name,
        height=70,
        windows=links.windows,
        traces=traces,
        floor=1,
        limits=_ceilings(now, device),
        gaps=links.gaps,
        missing="not measured",
        reason="" if traces else _why_none(links, "rate"),
        alt=_alt(f"Rate of {name}", traces, "GB/s to the GPU"),
    )


def _ceilings(now: Sequence[LinkNow], device: int | None) -> tuple[Limit, ...]:
    """Return what a GPU's link can achieve to the GPU, as a line."""
    found = (link.rx.ceiling for link in now if link.gpu.id == device)
    ceiling = next(found, None)
    return () if ceiling is None else (Limit(ceiling / _GB, "H2D at most", breach=False),)


def _uplinks(links: _Links) -> Panel:
    """Return the panel of shared bridges: to the GPUs in colour, from them dashed."""
    device = links.hottest("rx_saturation_ratio")[0]
    traces = [
        links.trace("tx_saturation_ratio", device, 100, "D2H", style="second"),
        links.trace("rx_saturation_ratio", device, 100, "H2D", colour="h2d_copy", bold=True),
    ]
    others = len(links.peaks("rx_saturation_ratio")) - 1
    more = f", hottest of {others + 1}" if others else ""
    return Panel(
        key="uplink",
        title="Shared uplink",
        unit="% of achievable",
        sub=f"{links.names.get(device, f'bridge #{device}')}{more}",
        height=66,
        windows=links.windows,
        traces=traces,
        top=100,
        limits=(_LIMIT,),
        gaps=links.gaps,
        missing="not all GPUs measured",
        alt=_alt("Shared uplink", traces, "% of what is achievable"),
    )
