"""The contract of a way to measure a link, and the reading it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from collector.nvml.messages import Flow, Method
from stallscope.clock import Instant

FIRST_SAMPLE = "first sample: rates need two"
NO_VALUE = "the driver marks that it has no value"
RESET = "the counter was reset: what it counted meanwhile is not known"


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a link carried since the reading before.

    Attributes:
        at: End of the window.
        window_us: Length of the window; None when there is no reading before.
        rx: To the GPU.
        tx: From the GPU.
        reason: Why something is missing; empty when all is there.
    """

    at: Instant
    window_us: int | None = None
    rx: Flow = Flow()  # noqa: RUF009 - frozen
    tx: Flow = Flow()  # noqa: RUF009 - frozen
    reason: str = ""


class Way(Protocol):
    """Measures one link; one thread uses it.

    Attributes:
        method: Which it is.
    """

    method: Method

    def start(self) -> None:
        """Take a first reading, to see whether it works.

        Raises:
            NvmlError: It does not.
        """

    def read(self) -> Traffic:
        """Return what was carried since the reading before.

        Raises:
            NvmlError: The driver does not tell.
        """

    def forget(self) -> None:
        """Take the next reading for the first: the time since the last one is not known."""

    def close(self) -> None:
        """Let go of what it holds."""
