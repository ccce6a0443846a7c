"""Byte counters of a link, for comparing: read as they are, and added up over their wraps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import NvmlError
from collector.edges.nvml_fields import PCIE_RX_BYTES, PCIE_TX_BYTES
from collector.edges.nvml_gpm import GpmSamples
from collector.nvml.gpm import GpmCumulative, GpmWindow
from lab.hardware.answer import UnansweredError

WRAP_BYTES = 1 << 32
_POLL_S = 0.002
"""Far below the 68 ms in which a 32-bit counter wraps on generation 5 with 16 lanes."""


class Count(NamedTuple):
    """A reading.

    Attributes:
        mono_ns: When, CLOCK_MONOTONIC.
        rx: Bytes to the GPU.
        tx: Bytes from the GPU.
    """

    mono_ns: int
    rx: int
    tx: int


class Counter(Protocol):
    """Counts bytes of both directions."""

    name: str

    def read(self) -> Count:
        """Return totals that do not wrap, as long as they are read often enough.

        Raises:
            NvmlError: The driver does not tell.
        """


class FieldCounter:
    """Fields 197 and 198. Where they wrap at 32 bits, read it every 30 ms at least.

    Args:
        device: The GPU.

    Raises:
        NvmlError: The driver does not tell.
        UnansweredError: It has no such fields.
    """

    name = "fields 197/198"

    def __init__(self, device: Device) -> None:
        self._device = device
        self._last = self._total = read_fields(device)

    def read(self) -> Count:
        """Return totals without wraps."""
        now = read_fields(self._device)
        rx, tx = (grown(old, new) for old, new in zip(self._last[1:], now[1:], strict=True))
        self._last = now
        self._total = Count(now.mono_ns, self._total.rx + rx, self._total.tx + tx)
        return self._total


class GpmCounter:
    """GPM metrics 255 and 256; each reading takes a tenth of a second.

    Args:
        device: The GPU.

    Raises:
        NvmlError: The driver does not tell.
    """

    name = "GPM metrics 255/256"

    def __init__(self, device: Device) -> None:
        self._window = GpmWindow(GpmSamples(device))
        self.read()

    def read(self) -> Count:
        """Return totals since the host started."""
        rx, tx = self._window.measure_once(GpmCumulative.numbers)
        return Count(time.monotonic_ns(), round(rx), round(tx))


def find_counter(device: Device) -> Counter:
    """Return a counter that works.

    Raises:
        UnansweredError: There is none; the message says why for each.
    """
    reasons = []
    for kind in (FieldCounter, GpmCounter):
        try:
            return kind(device)
        except (NvmlError, UnansweredError) as error:
            reasons.append(f"{kind.name}: {error}")
    raise UnansweredError(f"no byte counter ({'; '.join(reasons)})")


def read_fields(device: Device) -> Count:
    """Return fields 197 and 198 as they are.

    Raises:
        NvmlError: The call failed.
        UnansweredError: The driver has no such fields.
    """
    found = device.fields((PCIE_TX_BYTES, PCIE_RX_BYTES))
    now_ns = time.monotonic_ns()
    if found.keys() != {PCIE_TX_BYTES, PCIE_RX_BYTES}:
        refusal = device.refusal(PCIE_RX_BYTES) or device.refusal(PCIE_TX_BYTES)
        raise UnansweredError(str(refusal) if refusal else "fields 197/198 gave no value")
    return Count(now_ns, found[PCIE_RX_BYTES], found[PCIE_TX_BYTES])


def poll_fields(device: Device, seconds: float) -> list[Count]:
    """Return fields 197 and 198 as they are, read time and again for so long.

    Raises:
        NvmlError: A call failed.
        UnansweredError: The driver has no such fields.
    """
    counts = [read_fields(device)]
    while counts[-1].mono_ns - counts[0].mono_ns < seconds * 1e9:
        time.sleep(_POLL_S)
        counts.append(read_fields(device))
    return counts


def grown(old: int, new: int) -> int:
    """Return how far a counter went that may have wrapped once."""
    return new - old if new >= old else new - old + WRAP_BYTES


class Walk(NamedTuple):
    """How one counter went.

    Attributes:
        total: By how much it grew, wraps counted.
        wraps: How often it went back.
        highest: Highest value.
        seconds: From the first reading to the last.
        steps_s: Times between two changes of its value.
    """

    total: int
    wraps: int
    highest: int
    seconds: float
    steps_s: Sequence[float]


def walk_of(counts: Sequence[Count], direction: str) -> Walk:
    """Return how the counter of one direction went.

    Args:
        counts: Two readings or more.
        direction: rx or tx.
    """
    values = [count.rx if direction == "rx" else count.tx for count in counts]
    pairs = list(pairwise(values))
    moments = [
        count.mono_ns for count, (old, new) in zip(counts[1:], pairs, strict=True) if new != old
    ]
    return Walk(
        total=sum(grown(old, new) for old, new in pairs),
        wraps=sum(new < old for old, new in pairs),
        highest=max(values),
        seconds=(counts[-1].mono_ns - counts[0].mono_ns) / 1e9,
        steps_s=[(b - a) / 1e9 for a, b in pairwise(moments)],
    )
