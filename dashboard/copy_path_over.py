"""The links over a whole range: how long they were busy, and which GPUs are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from dashboard import formats
from dashboard.copy_path_devices import Devices, Gpu
from dashboard.copy_path_links import BUSY_RATIO, LinkNow, Speed, Way
from dashboard.data import rows
from dashboard.ranges import Range

Over = Mapping[tuple[int, str], tuple[str, float | None]]
"""How long a link was busy over a range, in words, and its peak, by device and direction."""


def read_last_seen(connection: duckdb.DuckDBPyConnection, span: Range) -> dict[int, int]:
    """Return when each GPU was last read in a range, by device id.

    Args:
        connection: Sees gpu_link or its rollup.
        span: The range.
    """
    found = connection.execute(
        f"SELECT device, max(wall_us) FROM {span.source('gpu_link')} "
        "WHERE wall_us >= ? AND wall_us < ? GROUP BY device ORDER BY device",
        [span.since_us, span.until_us],
    ).fetchall()
    return dict(found)


def vanished(
    last_seen: Mapping[int, int], devices: Devices, known: Sequence[LinkNow], now_us: int
) -> list[LinkNow]:
    """Return the GPUs that were read in a range but not in its last minute.

    Args:
        last_seen: When each was last read.
        devices: GPUs by name.
        known: Links of the last minute.
        now_us: The present.
    """
    here = {link.gpu.id for link in known}
    return [
        _gone(devices.gpu(device), last_us, now_us)
        for device, last_us in last_seen.items()
        if device not in here
    ]


def _gone(gpu: Gpu, last_us: int, now_us: int) -> LinkNow:
    """Return a GPU whose rows have ended."""
    nothing = Way("rx", *(None,) * 10)
    return LinkNow(
        gpu=gpu,
        rx=nothing,
        tx=replace(nothing, direction="tx"),
        speed=Speed(None, None, None, None),
        method=None,
        coverage=None,
        both_busy=None,
        downtrained=None,
        state="no_reading",
        reason=f"Last reading at {formats.clock(last_us, now_us)}.",
        readings=0,
        measured=0,
    )


def read_over(connection: duckdb.DuckDBPyConnection, span: Range) -> Over:
    """Return how long each direction was busy over a range, and its peak.

    Args:
        connection: Sees gpu_link and module copy_path, or its rollup and copy_path_minutes.
        span: The range.
    """
    macro = over_module(span)
    found = rows(
        connection,
        f"SELECT * FROM {macro}(?, ?, limit_ratio := ?)",
        [span.since_us, span.until_us, BUSY_RATIO],
    )
    return {
        (row["device"], row["direction"]): (_long(row), row["saturation_max_ratio"])
        for row in found
        if row["saturation_max_ratio"] is not None
    }


def over_module(span: Range) -> str:
    """Return the module of the SQL library that `read_over` needs for a range."""
    return "copy_path" if span.raw else "copy_path_minutes"


def _long(row: Mapping[str, Any]) -> str:
    """Return how long a direction was busy: in seconds, or in minutes with at least one reading."""
    if "minutes" not in row:
        return formats.duration(row["above_us"]) if row["above_us"] else "never"
    if not row["minutes_above"]:
        return "never"
    return f"in {row['minutes_above']} of {formats.count(row['minutes'], 'minute')}"
