"""What a PCIe link can carry, by generation and width: at most, as payload, and in practice. Pure.

All in bytes/s, one direction. GB = 10**9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from collector.nvml.raw_rate import raw_bytes_per_second

# What pinned copies reach of the raw rate, the slower direction (H2D), as published for x16: about
# 12 of 15.8 GB/s, 26.4 of 31.5 and 55.5 of 63. Generations 1 and 2 as 3, 6 as 5: nothing better
# is known. `stallscope calibrate` measures the real one.
_USABLE: Mapping[int, float] = {1: 0.78, 2: 0.78, 3: 0.78, 4: 0.83, 5: 0.88, 6: 0.88}


class LinkState(NamedTuple):
    """A PCIe link as it is, or as it could be.

    Attributes:
        generation: PCIe generation.
        width: Lanes.
    """

    generation: int
    width: int

    def __str__(self) -> str:
        """Return it as people write it."""
        return f"gen {self.generation} x{self.width}"

    @property
    def raw(self) -> float | None:
        """What one direction carries at most; None for a generation that is not known."""
        return raw_bytes_per_second(self.generation, self.width)

    @property
    def usable(self) -> float | None:
        """What copies usually reach; None for a generation that is not known."""
        return None if self.raw is None else self.raw * _USABLE[self.generation]
