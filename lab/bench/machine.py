"""How fast this machine is right now: fixed loops to read every other figure against."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable

import numpy as np

from lab.bench.figure import Figure

_REPEATS = 5


def measure_machine() -> list[Figure]:
    """Return milliseconds of two fixed loops: sorting 2 M integers, deflating 8 MB."""
    numbers = np.random.default_rng(1).integers(0, 1 << 40, 2_000_000)
    text = bytes(range(256)) * 32_768
    return [
        Figure("machine", "sort 2 M integers (numpy)", "ms", _times(lambda: np.sort(numbers))),
        Figure("machine", "deflate 8 MB (zlib)", "ms", _times(lambda: zlib.compress(text, 6))),
    ]


def _times(work: Callable[[], object]) -> list[float]:
    return [time_ms(work) for _ in range(_REPEATS)]


def time_ms(work: Callable[[], object]) -> float:
    """Return how many milliseconds a piece of work takes, wall time."""
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1_000
