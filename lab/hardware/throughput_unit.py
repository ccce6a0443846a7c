"""What the KB of nvmlDeviceGetPcieThroughput is, against a byte counter under the same load."""

from __future__ import annotations

import time

from collector.edges.nvml_device import Device
from lab.hardware.answer import Answer, UnansweredError
from lab.hardware.counters import Counter, find_counter
from lab.hardware.subject import Subject
from lab.quantity import rank

QUESTION = "Is the KB of throughput 1000 or 1024 bytes?"
_CALLS = {"rx": 1, "tx": 0}  # nvmlPcieUtilCounter_t
_WARM_UP_S = 0.2
_TOLERANCE = 0.01
"""The two bases are 2.4 % apart."""


def examine(subject: Subject) -> Answer:
    """Answer it; see `lab.hardware.answer.Examine` for errors."""
    counter = find_counter(subject.device)
    load = subject.need_load()
    rows, ratios = [], []
    for direction, name in (("rx", "H2D"), ("tx", "D2H")):
        load.begin(direction, subject.seconds)
        time.sleep(_WARM_UP_S * min(1.0, subject.seconds))
        rate, kilobytes = _compare(subject.device, counter, direction, 0.6 * subject.seconds)
        load.carried()
        if not kilobytes:
            raise UnansweredError(f"throughput said 0 for {name} while copies ran")
        ratios.append(rate / kilobytes)
        rows.append([name, f"{rate / 1e9:.3f}", str(round(kilobytes)), f"{ratios[-1]:.1f}"])
    verdict = f"{judge(ratios)}, by comparison with {counter.name}."
    head = ("direction", "counted GB/s", "throughput KB/s (median)", "bytes per KB")
    return Answer(QUESTION, verdict, head, rows)


def judge(ratios: list[float]) -> str:
    """Return which base fits, from bytes counted per KB told."""
    fitting = [
        base for base in (1000, 1024) if all(abs(r / base - 1) <= _TOLERANCE for r in ratios)
    ]
    told = " and ".join(f"{ratio:.1f}" for ratio in ratios)
    if len(fitting) != 1:
        return f"Neither base fits: {told} bytes were counted per KB"
    return f"KB = {fitting[0]} bytes: {told} bytes were counted per KB"


def _compare(
    device: Device, counter: Counter, direction: str, seconds: float
) -> tuple[float, float]:
    """Return counted bytes per second and the median of throughput over the same time."""
    told: list[float] = []
    first = last = counter.read()
    while last.mono_ns - first.mono_ns < seconds * 1e9 or not told:
        told.append(device.ask("nvmlDeviceGetPcieThroughput", _CALLS[direction]))
        last = counter.read()
    size = last.rx - first.rx if direction == "rx" else last.tx - first.tx
    return size * 1e9 / (last.mono_ns - first.mono_ns), rank(told, 0.5)
