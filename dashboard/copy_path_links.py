"""The links in figures: what each GPU's link carried in the last minute, per direction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from dashboard import formats
from dashboard.copy_path_devices import Devices, Gpu
from dashboard.data import rows
from stallscope.units import US_PER_SECOND

BUSY_RATIO = 0.85
"""From here on copies queue: small ones wait behind bulk ones, and what is left is jitter."""
_STOPPED_US = 5 * US_PER_SECOND
TABLES = ("gpu_link", "pcie_uplink", "source_health")
MODULES = ("copy_path", "uplinks")
KEPT = {
    "gpu_link": (
        "wall_us",
        "device",
        "window_us",
        "state",
        "rx_window_mean_bytes_per_second",
        "tx_window_mean_bytes_per_second",
        "rx_saturation_ratio",
        "tx_saturation_ratio",
        "rx_raw_ratio",
        "tx_raw_ratio",
        "rx_ceiling_bytes_per_second",
        "tx_ceiling_bytes_per_second",
        "coverage_ratio",
        "method",
        "rx_ceiling_kind",
        "tx_ceiling_kind",
        "link_generation",
        "link_width",
        "max_link_generation",
        "max_link_width",
        "both_busy",
        "link_downtrained",
        "reason",
    ),
    "engine_histogram": (
        "wall_us",
        "engine",
        "window_us",
        "family",
        "sum",
        "observations",
        "bounds",
        "counts",
    ),
}
"""Raw tables that the page reads several times, with what it reads of them."""


@dataclass(frozen=True, slots=True)
class Way:
    """One direction of a link in a stretch of time; None is not measured.

    Attributes:
        direction: rx or tx.
        mean, peak: Rate in bytes per second.
        ceiling: What the link can achieve, bytes per second.
        ceiling_kind: default, learned or calibrated.
        saturation_mean, saturation_peak: Rate over ceiling.
        raw_mean, raw_peak: Rate over theoretical rate.
        above_us: Time above `BUSY_RATIO`.
        measured_us: Time of the readings that tell.
    """

    direction: str
    mean: float | None
    peak: float | None
    ceiling: float | None
    ceiling_kind: str | None
    saturation_mean: float | None
    saturation_peak: float | None
    raw_mean: float | None
    raw_peak: float | None
    above_us: int | None
    measured_us: int | None

    @property
    def above_share(self) -> float:
        """Share of the measured time above `BUSY_RATIO`, 0 where nothing was measured."""
        return (self.above_us or 0) / self.measured_us if self.measured_us else 0.0


@dataclass(frozen=True, slots=True)
class Speed:
    """Generation and width of a link now and at most; None is unknown."""

    generation: int | None
    width: int | None
    max_generation: int | None
    max_width: int | None


@dataclass(frozen=True, slots=True)
class LinkNow:
    """A GPU's link in a stretch of time.

    Attributes:
        gpu: Which.
        rx, tx: Its directions.
        speed: Its link.
        method: How it is measured, None when it is not.
        coverage: Share of the time that the method saw.
        both_busy: Share of the time with both directions busy.
        downtrained: Share of the loaded time with a link below its best; None while idle.
        state: In the words of gpu_link, or ``no_reading`` when rows stopped.
        reason: Why something is missing; empty when nothing is.
        readings, measured: Readings, and those that have a rate.
    """

    gpu: Gpu
    rx: Way
    tx: Way
    speed: Speed
    method: str | None
    coverage: float | None
    both_busy: float | None
    downtrained: float | None
    state: str
    reason: str
    readings: int
    measured: int

    @property
    def hot(self) -> Way:
        """The busier direction."""
        return max(self.rx, self.tx, key=lambda way: way.saturation_peak or -1.0)

    @property
    def known(self) -> bool:
        """Whether the saturation of either direction is known."""
        return self.hot.saturation_peak is not None


@dataclass(frozen=True, slots=True)
class UplinkNow:
    """A shared bridge in a stretch of time."""

    name: str
    rx: Way
    tx: Way
    gpus: int | None
    speed: Speed
    reason: str


def read_links(
    connection: duckdb.DuckDBPyConnection, devices: Devices, since_us: int, until_us: int
) -> list[LinkNow]:
    """Return the link of every GPU that has a row in a stretch, the hottest first.

    Args:
        connection: Sees gpu_link and the module copy_path.
        devices: GPUs by name.
        since_us: First moment.
        until_us: Moment after the last one.
    """
    found = rows(
        connection,
        "SELECT * FROM copy_path(?, ?, limit_ratio := ?)",
        [since_us, until_us, BUSY_RATIO],
    )
    ways = {(row["device"], row["direction"]): row for row in found}
    links = [
        _unless_stopped(
            _link(devices.gpu(device), row, ways[device, "tx"]), row, since_us, until_us
        )
        for (device, direction), row in ways.items()
        if direction == "rx"
    ]
    return sorted(links, key=lambda link: (-(link.hot.saturation_peak or -1.0), link.gpu.name))


def _link(gpu: Gpu, rx: Mapping[str, Any], tx: Mapping[str, Any]) -> LinkNow:
    """Return one link."""
    return LinkNow(
        gpu=gpu,
        rx=_way(rx),
        tx=_way(tx),
        speed=_speed(rx),
        method=rx["method"],
        coverage=rx["coverage_ratio"],
        both_busy=rx["both_busy_ratio"],
        downtrained=rx["downtrained_ratio"],
        state=rx["state"] or "ok",
        reason=rx["reason"] or "",
        readings=rx["readings"],
        measured=rx["measured"],
    )


def _unless_stopped(link: LinkNow, row: Mapping[str, Any], since_us: int, until_us: int) -> LinkNow:
    """Return a link, in state ``no_reading`` when its rows have stopped while others may go on."""
    age_us = until_us - row["last_us"]
    usual_us = (row["last_us"] - since_us) / row["readings"]
    if age_us <= max(_STOPPED_US, 3 * usual_us):
        return link
    reason = f"No reading for {formats.duration(age_us)}."
    return replace(link, state="no_reading", reason=f"{reason} {link.reason}".strip())


def _way(row: Mapping[str, Any]) -> Way:
    """Return one direction."""
    return Way(
        direction=row["direction"],
        mean=row["mean_bytes_per_second"],
        peak=row["max_bytes_per_second"],
        ceiling=row["ceiling_bytes_per_second"],
        ceiling_kind=row.get("ceiling_kind", "default"),
        saturation_mean=row["saturation_mean_ratio"],
        saturation_peak=row["saturation_max_ratio"],
        raw_mean=row.get("raw_mean_ratio"),
        raw_peak=row.get("raw_max_ratio"),
        above_us=row["above_us"],
        measured_us=row["measured_us"],
    )


def _speed(row: Mapping[str, Any]) -> Speed:
    """Return generation and width."""
    return Speed(
        row["link_generation"],
        row["link_width"],
        row.get("max_link_generation"),
        row.get("max_link_width"),
    )


def read_uplinks(
    connection: duckdb.DuckDBPyConnection, devices: Devices, since_us: int, until_us: int
) -> list[UplinkNow]:
    """Return every shared bridge that has a row in a stretch, by name.

    Args:
        connection: Sees pcie_uplink and the module uplinks.
        devices: Bridges by name.
        since_us: First moment.
        until_us: Moment after the last one.
    """
    found = rows(
        connection,
        "SELECT * FROM uplinks(?, ?, limit_ratio := ?)",
        [since_us, until_us, BUSY_RATIO],
    )
    ways = {(row["device"], row["direction"]): row for row in found}
    links = [
        UplinkNow(
            name=devices.bridges.get(device, f"bridge #{device}"),
            rx=_way(row),
            tx=_way(ways[device, "tx"]),
            gpus=row["gpus"],
            speed=_speed(row),
            reason=row["reason"] or "",
        )
        for (device, direction), row in ways.items()
        if direction == "rx"
    ]
    return sorted(links, key=lambda link: link.name)


def read_sources(
    connection: duckdb.DuckDBPyConnection, since_us: int, until_us: int
) -> dict[str, tuple[str, str]]:
    """Return (state, reason) by which each source last described itself.

    Args:
        connection: Sees source_health.
        since_us: First moment.
        until_us: Moment after the last one.
    """
    found = connection.execute(
        "SELECT source, max_by(state, wall_us), max_by(coalesce(reason, ''), wall_us) "
        "FROM source_health WHERE wall_us >= ? AND wall_us < ? GROUP BY source",
        [since_us, until_us],
    ).fetchall()
    return {source: (state, reason) for source, state, reason in found}
