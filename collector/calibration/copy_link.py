"""Times copies between host and GPU with PyTorch or CuPy and prints one JSON object.

It runs in whatever Python has one of the two, down to 3.9, so it imports nothing of stallscope. The
GPU is the first one that CUDA shows; the caller hides the others with CUDA_VISIBLE_DEVICES.

rx is to the GPU (host to device), tx from the GPU. ``together`` is the rate of a direction while
the other one is kept busy: it gets twice the copies, so that it does not end first. That is what
the bidirectional tests of nvbandwidth measure, too.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

COPY_BYTES = 256 << 20
SMALLEST_COPY_BYTES = 16 << 20
WARM_UP_S = 0.3
ROUND_S = 0.1
FEWEST_ROUNDS = 3
OTHER = {"rx": "tx", "tx": "rx"}
NO_LIBRARY = 3


class Copies(Protocol):
    """What copies: buffers of ``size`` bytes, one pair and one stream a direction."""

    library: str
    version: str
    size: int

    def pci_address(self) -> str:
        """Return the GPU's PCI address as sysfs spells it; empty when it cannot be told."""

    def copy(self, direction: str, count: int) -> None:
        """Enqueue copies."""

    def mark(self, direction: str) -> Any:  # noqa: ANN401 - an event of a library without types
        """Return an event that notes when the copies enqueued so far are done."""

    def wait(self) -> None:
        """Wait for all copies."""

    def seconds(self, start: Any, end: Any) -> float:  # noqa: ANN401 - the same
        """Return the time between two events that have passed."""


class TorchCopies:
    """Copies by PyTorch."""

    library = "torch"

    def __init__(self, size: int) -> None:
        """Allocate buffers of ``size`` bytes; RuntimeError when there is no room or no GPU."""
        torch: Any = importlib.import_module("torch")
        self._torch = torch
        self.size = size
        self.version = str(torch.__version__)
        self._streams = {direction: torch.cuda.Stream() for direction in OTHER}
        self._pairs = {direction: self._pair(direction) for direction in OTHER}

    def _pair(self, direction: str) -> tuple[Any, Any]:
        """Return target and source."""
        byte = self._torch.uint8
        host = self._torch.empty(self.size, dtype=byte, pin_memory=True)
        device = self._torch.empty(self.size, dtype=byte, device="cuda:0")
        return (device, host) if direction == "rx" else (host, device)

    def pci_address(self) -> str:
        """Return the GPU's PCI address; empty where this PyTorch does not tell it."""
        properties = self._torch.cuda.get_device_properties(0)
        names = ("pci_domain_id", "pci_bus_id", "pci_device_id")
        parts = [int(getattr(properties, name)) for name in names if hasattr(properties, name)]
        return "{:04x}:{:02x}:{:02x}.0".format(*parts) if len(parts) == len(names) else ""

    def copy(self, direction: str, count: int) -> None:
        """Enqueue copies."""
        target, source = self._pairs[direction]
        with self._torch.cuda.stream(self._streams[direction]):
            for _ in range(count):
                target.copy_(source, non_blocking=True)

    def mark(self, direction: str) -> Any:  # noqa: ANN401 - an event of a library without types
        """Return an event that notes when the copies enqueued so far are done."""
        event = self._torch.cuda.Event(enable_timing=True)
        event.record(self._streams[direction])
        return event

    def wait(self) -> None:
        """Wait for all copies."""
        self._torch.cuda.synchronize()

    def seconds(self, start: Any, end: Any) -> float:  # noqa: ANN401 - the same
        """Return the time between two events that have passed."""
        return float(start.elapsed_time(end)) / 1000


class CupyCopies:
    """The same by CuPy."""

    library = "cupy"

    def __init__(self, size: int) -> None:
        """Allocate buffers of ``size`` bytes; an error of CuPy when there is no room or no GPU."""
        cupy: Any = importlib.import_module("cupy")
        self._cuda = cupy.cuda
        self.size = size
        self.version = str(cupy.__version__)
        self._streams = {direction: cupy.cuda.Stream(non_blocking=True) for direction in OTHER}
        self._hosts = {direction: cupy.cuda.alloc_pinned_memory(size) for direction in OTHER}
        self._devices = {direction: cupy.cuda.alloc(size) for direction in OTHER}

    def pci_address(self) -> str:
        """Return the GPU's PCI address."""
        return str(self._cuda.runtime.deviceGetPCIBusId(0)).lower()

    def copy(self, direction: str, count: int) -> None:
        """Enqueue copies."""
        runtime = self._cuda.runtime
        host, device = self._hosts[direction].ptr, self._devices[direction].ptr
        target, source, kind = (
            (device, host, runtime.memcpyHostToDevice)
            if direction == "rx"
            else (host, device, runtime.memcpyDeviceToHost)
        )
        for _ in range(count):
            runtime.memcpyAsync(target, source, self.size, kind, self._streams[direction].ptr)

    def mark(self, direction: str) -> Any:  # noqa: ANN401 - an event of a library without types
        """Return an event that notes when the copies enqueued so far are done."""
        event = self._cuda.Event()
        event.record(self._streams[direction])
        return event

    def wait(self) -> None:
        """Wait for all copies."""
        self._cuda.runtime.deviceSynchronize()

    def seconds(self, start: Any, end: Any) -> float:  # noqa: ANN401 - the same
        """Return the time between two events that have passed."""
        return float(self._cuda.get_elapsed_time(start, end)) / 1000


KINDS: Mapping[str, Callable[[int], Copies]] = {"torch": TorchCopies, "cupy": CupyCopies}


def find_library() -> str | None:
    """Return the library to use, without loading it: that takes seconds."""
    return next((name for name in KINDS if importlib.util.find_spec(name) is not None), None)


def allocate(library: str) -> Copies:
    """Return copies as large as there is room for: an engine may have left little memory."""
    size = COPY_BYTES
    while True:
        try:
            return KINDS[library](size)
        except (RuntimeError, MemoryError):
            if size <= SMALLEST_COPY_BYTES:
                raise
            size //= 2


def time_round(copies: Copies, direction: str, count: int, others: int) -> float:
    """Return how many seconds ``count`` copies take beside ``others`` of the other direction."""
    copies.copy(OTHER[direction], others)
    start = copies.mark(direction)
    copies.copy(direction, count)
    end = copies.mark(direction)
    copies.wait()
    return copies.seconds(start, end)


def measure(
    copies: Copies,
    direction: str,
    *,
    together: bool,
    seconds: float,
    go_on: Callable[[], None],
) -> float:
    """Return the median rate of a direction in bytes a second, over rounds of about 0.1 s.

    Args:
        copies: What copies.
        direction: rx or tx.
        together: Keep the other direction busy.
        seconds: How long to go on; at least three rounds in any case.
        go_on: Called before each round; it raises to end the work.
    """
    one = max(time_round(copies, direction, 1, 0), 1e-6)
    count = max(1, math.ceil(ROUND_S / one))
    rates: list[float] = []
    deadline = time.monotonic() + seconds
    while len(rates) < FEWEST_ROUNDS or time.monotonic() < deadline:
        go_on()
        took = time_round(copies, direction, count, 2 * count if together else 0)
        rates.append(copies.size * count / took if took > 0 else math.nan)
    return statistics.median(rates)


def warm_up(copies: Copies) -> None:
    """Copy until an idle link has left its power-saving speed."""
    deadline = time.monotonic() + WARM_UP_S
    while time.monotonic() < deadline:
        for direction in OTHER:
            time_round(copies, direction, 1, 1)


def measure_all(copies: Copies, seconds: float, go_on: Callable[[], None]) -> dict[str, float]:
    """Return the four rates; each takes a quarter of the seconds."""
    warm_up(copies)
    return {
        f"{direction}{'_together' if together else ''}": measure(
            copies, direction, together=together, seconds=seconds / 4, go_on=go_on
        )
        for together in (False, True)
        for direction in OTHER
    }


def stay_near(cpus: str) -> bool:
    """Run on these CPUs, so that pinned memory lies on their NUMA node; return whether we do.

    Args:
        cpus: As sysfs spells them, ``0-27,56-83``. Those this process may not use are left out.
    """
    wanted: set[int] = set()
    with contextlib.suppress(ValueError, OSError, AttributeError):  # none, denied, not Linux
        for part in cpus.split(","):
            first, _, last = part.partition("-")
            wanted.update(range(int(first), int(last or first) + 1))
        wanted &= os.sched_getaffinity(0)
        os.sched_setaffinity(0, wanted)
        return True
    return False


def check_parent(parent: int) -> Callable[[], None]:
    """Return a function that ends this process when the one that started it is gone."""

    def go_on() -> None:
        if os.getppid() != parent:
            raise SystemExit(1)

    return go_on


def main(words: Sequence[str]) -> int:
    """Measure and print; 3 when neither library is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probe", action="store_true", help="only say which library there is")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long to copy in all")
    parser.add_argument("--cpus", default="", help="CPUs near the GPU")
    given = parser.parse_args(words)
    library = find_library()
    if library is None:
        sys.stderr.write("this Python has neither torch nor cupy\n")
        return NO_LIBRARY
    if given.probe:
        sys.stdout.write(json.dumps({"library": library}) + "\n")
        return 0
    near = stay_near(given.cpus)
    copies = allocate(library)
    rates = measure_all(copies, given.seconds, check_parent(os.getppid()))
    told = {"library": library, "version": copies.version, "pci_address": copies.pci_address()}
    sys.stdout.write(json.dumps({**told, "copy_bytes": copies.size, "near": near, **rates}) + "\n")
    return 0


if __name__ == "__main__":
    if sys.path and sys.path[0] == str(Path(__file__).resolve().parent):
        del sys.path[0]  # a file beside this one must not stand in for a module of the library
    sys.exit(main(sys.argv[1:]))
