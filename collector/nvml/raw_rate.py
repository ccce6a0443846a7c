"""What a PCIe link can carry at most, by generation and width. Pure."""

from __future__ import annotations

from collections.abc import Mapping

# Per lane and direction in bytes/s: transfers/s times encoding. 8b/10b up to generation 2,
# 128b/130b up to 5, and 236 of 256 bytes of a flit from 6 on (PCI Express Base Specification).
_BYTES_PER_LANE: Mapping[int, float] = {
    1: 2.5e9 / 8 * 8 / 10,
    2: 5e9 / 8 * 8 / 10,
    3: 8e9 / 8 * 128 / 130,
    4: 16e9 / 8 * 128 / 130,
    5: 32e9 / 8 * 128 / 130,
    6: 64e9 / 8 * 236 / 256,
}

WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})
"""Lanes that a link can have (PCI Express Base Specification)."""


def raw_bytes_per_second(generation: int | None, width: int | None) -> float | None:
    """Return what one direction carries at most, in bytes/s; None for an unknown link."""
    lane = _BYTES_PER_LANE.get(generation or 0)
    return None if lane is None or width not in WIDTHS else lane * width
