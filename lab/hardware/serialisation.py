"""Whether calls of several threads wait for each other inside the driver."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence

from collector.edges.nvml_device import Device
from lab.hardware.answer import Answer
from lab.hardware.subject import Subject
from lab.quantity import show_us

QUESTION = "Do calls of several threads, or for several GPUs, wait for each other?"
_RX = 1
_REPEATS = 5
_SERIAL_SHARE = 0.7
"""Of the time that calls one after the other would take."""


def examine(subject: Subject) -> Answer:
    """Answer it; see `lab.hardware.answer.Examine` for errors."""
    device = subject.device
    single = time_together([device])
    rows = [["1 thread, 1 GPU", show_us(single), "1.0"]]
    cases = [("2 threads, 1 GPU", [device, device])]
    several = list(subject.all_devices)
    if len(several) > 1:
        cases.append((f"{len(several)} threads, {len(several)} GPUs", several))
    verdicts = []
    for name, devices in cases:
        took = time_together(devices)
        rows.append([name, show_us(took), f"{took / single:.1f}"])
        verdicts.append(f"{name}: {judge(took, single, len(devices))}")
    if len(several) == 1:
        verdicts.append("several GPUs: not known, there is one here")
    head = ("throughput calls", "all done after (median)", "times a single call")
    return Answer(QUESTION, f"{'; '.join(verdicts)}.", head, rows)


def judge(took: float, single: float, threads: int) -> str:
    """Return whether calls waited for each other.

    Args:
        took: Time until all were done.
        single: Time of one alone.
        threads: How many there were.
    """
    return "they wait" if took > _SERIAL_SHARE * threads * single else "they do not wait"


def time_together(devices: Sequence[Device]) -> float:
    """Return the median time in microseconds until one throughput call per thread is done.

    Raises:
        NvmlError: Throughput does not work here.
    """
    devices[0].ask("nvmlDeviceGetPcieThroughput", _RX)
    return statistics.median(_round(devices) for _ in range(_REPEATS))


def _round(devices: Sequence[Device]) -> float:
    gate = threading.Barrier(len(devices) + 1)

    def call(device: Device) -> None:
        gate.wait()
        device.optional("nvmlDeviceGetPcieThroughput", _RX)

    threads = [threading.Thread(target=call, args=(device,)) for device in devices]
    for thread in threads:
        thread.start()
    gate.wait()
    began_ns = time.monotonic_ns()
    for thread in threads:
        thread.join()
    return (time.monotonic_ns() - began_ns) / 1000
