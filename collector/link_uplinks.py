"""Rows of table pcie_uplink: what the GPUs below one switch carry together.

Copies between GPUs below the same switch do not pass its uplink, but are in the sums: the load of
an uplink is at most what is said here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.link_comparison import choose_state
from collector.link_place import SharedPort, Uplink
from collector.source import Machine, Row
from stallscope.clock import Instant

_UNKNOWN_LINK = "generation or width of the uplink is unknown: no ceiling"
_RATES = ("rx_window_mean_bytes_per_second", "tx_window_mean_bytes_per_second")


@dataclass(frozen=True, slots=True)
class _Sum:
    """What the GPUs below a port carried.

    Attributes:
        rx: Sum to the GPUs, bytes/s; None unless all were measured.
        tx: Sum from the GPUs, bytes/s; None unless all were measured.
        measured: How many GPUs were measured both ways.
        window_us: The longest window among them.
    """

    rx: float | None
    tx: float | None
    measured: int
    window_us: int | None


def uplink_rows(
    machine: Machine, ports: Sequence[SharedPort], rows: Mapping[str, Row], now: Instant
) -> list[Row]:
    """Return a row per port that several GPUs share.

    Args:
        machine: Gives out device ids.
        ports: The ports.
        rows: Rows of table gpu_link of this poll, by PCI address.
        now: When they were taken.

    Raises:
        SourceError: The device ids of this lake are used up.
    """
    return [_describe(machine, port, rows, now) for port in ports]


def _describe(machine: Machine, port: SharedPort, rows: Mapping[str, Row], now: Instant) -> Row:
    total = _add_up(port, rows)
    link = port.uplink.now
    row: dict[str, object] = {
        "wall_us": now.wall_us,
        "mono_us": now.mono_us,
        "device": machine.names.device(_facts(port)),
        "window_us": total.window_us,
        "gpus": len(port.gpus),
        "gpus_measured": total.measured,
        "rx_window_mean_bytes_per_second": total.rx,
        "tx_window_mean_bytes_per_second": total.tx,
        "link_generation": None if link is None else link.generation,
        "link_width": None if link is None else link.width,
    }
    if total.rx is None or total.tx is None:
        missing = len(port.gpus) - total.measured
        return {**row, "reason": f"{missing} of {len(port.gpus)} GPUs below were not measured"}
    ceiling = _ceiling(port.uplink, max(total.rx, total.tx))
    if ceiling is None:
        return {**row, "reason": _UNKNOWN_LINK}
    return {
        **row,
        "rx_saturation_ratio": min(1.0, total.rx / ceiling),
        "tx_saturation_ratio": min(1.0, total.tx / ceiling),
        "ceiling_bytes_per_second": ceiling,
    }


def _add_up(port: SharedPort, rows: Mapping[str, Row]) -> _Sum:
    found = [rows[address] for address in port.gpus if address in rows]
    pairs = [
        (rx, tx)
        for rx, tx in (map(row.get, _RATES) for row in found)
        if isinstance(rx, float) and isinstance(tx, float)
    ]
    windows = [window for row in found if isinstance(window := row.get("window_us"), int)]
    complete = len(pairs) == len(port.gpus)
    return _Sum(
        rx=sum(rx for rx, _ in pairs) if complete else None,
        tx=sum(tx for _, tx in pairs) if complete else None,
        measured=len(pairs),
        window_us=max(windows, default=None),
    )


def _ceiling(uplink: Uplink, peak: float) -> float | None:
    """Return what an uplink usually achieves; None when its state is unknown."""
    if uplink.now is None or uplink.best is None:
        return None
    return choose_state(peak, uplink.now, uplink.best).usable


def _facts(port: SharedPort) -> Row:
    """Return the columns of table device."""
    node = port.uplink.port
    return {
        "kind": "bridge",
        "name": node.address,
        "role": "uplink",
        "model": node.model,
        "pci_address": node.address,
        "numa_node": node.numa_node,
    }
