"""The GPU that is examined, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collector.edges.nvml_device import Device
from collector.nvml.messages import GpuFacts, LinkAnswer
from lab.hardware.load import Load, LoadError


@dataclass(frozen=True, slots=True)
class Subject:
    """What questions are put to.

    Attributes:
        facts: What the GPU is.
        device: Asks NVML about it, inside this process.
        all_devices: Every GPU of the machine, this one first.
        load: Puts load on it; None when nothing here can.
        no_load: Why nothing can.
        ask_link: Asks the NVML child that ships, as the collector does.
        seconds: How long one measurement goes on.
        blocks: How often each way of polling takes its turn.
    """

    facts: GpuFacts
    device: Device
    all_devices: Sequence[Device]
    load: Load | None
    no_load: str
    ask_link: Callable[[], LinkAnswer]
    seconds: float
    blocks: int

    def need_load(self) -> Load:
        """Return the load.

        Raises:
            LoadError: There is none.
        """
        if self.load is None:
            raise LoadError(self.no_load)
        return self.load
