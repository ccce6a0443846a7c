"""Many devices in one panel: the hottest as lines, the rest as one band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dashboard.charts import Gap, Trace, on_windows
from dashboard.data import Columns
from dashboard.ranges import Windows

LINES = 2
"""Devices that get a line of their own; the others are drawn as one band."""


@dataclass(frozen=True, slots=True)
class DeviceTraces:
    """Extremes of all devices per window, as `analytics.decimation.extremes` asks for them.

    Attributes:
        windows: The x axis.
        found: Columns wall_us, device, and ``<gauge>_low`` and ``<gauge>_high`` per gauge.
        gaps: Stretches without a row of any device.
    """

    windows: Windows
    found: Columns
    gaps: Sequence[Gap]

    def hottest(self, gauge: str) -> list[int]:
        """Return the devices with the largest values of a gauge, the hottest first."""
        peaks = self.peaks(gauge)
        return sorted(peaks, key=lambda device: (-peaks[device], device))

    def peaks(self, gauge: str) -> dict[int, float]:
        """Return the largest value of a gauge by device, -1 where none is known."""
        return {
            device: _peak(self.found[f"{gauge}_high"][self.found["device"] == device])
            for device in np.unique(self.found["device"]).tolist()
        }

    def trace(self, gauge: str, device: int, scale: float, label: str, **look: Any) -> Trace:  # noqa: ANN401 - handed on to Trace
        """Return one device as its largest value per window, with a band down to the smallest."""
        mine = self.found["device"] == device
        wall = self.found["wall_us"][mine]
        return Trace(
            label,
            on_windows(self.windows, wall, self.found[f"{gauge}_high"][mine], scale),
            on_windows(self.windows, wall, self.found[f"{gauge}_low"][mine], scale),
            **look,
        )

    def band(self, gauge: str, devices: Sequence[int], scale: float) -> Trace:
        """Return several devices as one band from the smallest to the largest value."""
        mine = np.isin(self.found["device"], devices)
        wall = self.found["wall_us"][mine]
        high, low = self.found[f"{gauge}_high"][mine], self.found[f"{gauge}_low"][mine]
        label = f"{len(devices)} other" if len(devices) == 1 else f"{len(devices)} others"
        return Trace(
            label,
            on_windows(self.windows, *_folded(wall, high, np.fmax), scale),
            on_windows(self.windows, *_folded(wall, low, np.fmin), scale),
            style="rest",
            fill=0.22,
            band_only=True,
        )


def _peak(values: npt.NDArray[Any]) -> float:
    """Return the largest value, or -1 when none is known."""
    known = values[~np.isnan(values.astype(np.float64))]
    return float(known.max()) if len(known) else -1.0


def _folded(
    wall_us: npt.NDArray[np.int64], values: npt.NDArray[Any], fold: np.ufunc
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return one value per window out of several devices' values; NaN only where all are."""
    moments, position = np.unique(wall_us, return_inverse=True)
    folded = np.full(len(moments), np.nan)
    fold.at(folded, position, values.astype(np.float64))
    return moments, folded
