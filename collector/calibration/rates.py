"""What a measurement came to, and where it may go wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from collector.nvml.messages import GpuFacts


class MeasureError(Exception):
    """A GPU's link could not be measured, or what came out cannot be true."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per second that a link carried.

    Attributes:
        rx: To the GPU (H2D), the other direction idle.
        tx: From the GPU (D2H), the other direction idle.
        rx_together: To the GPU while the other direction is busy; None when not measured.
        tx_together: From the GPU while the other direction is busy; None when not measured.
    """

    rx: float
    tx: float
    rx_together: float | None = None
    tx_together: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """Rates and what measured them.

    Attributes:
        rates: The rates.
        tool: Program or library with its version.
        pci_address: GPU that the tool says it measured; empty when it does not say.
    """

    rates: Rates
    tool: str
    pci_address: str = ""


class Tool(Protocol):
    """A way of measuring."""

    @property
    def label(self) -> str:
        """What it is, for people."""

    @property
    def seconds(self) -> float:
        """About how long one GPU takes."""

    def measure(self, gpu: GpuFacts, meanwhile: Callable[[], None]) -> Measured:
        """Copy and return the rates.

        Args:
            gpu: Which one.
            meanwhile: Called every quarter of a second while copies run.

        Raises:
            MeasureError: Nothing usable came out; the message says why.
        """
