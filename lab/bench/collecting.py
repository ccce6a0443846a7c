"""A collector in a process of its own, measured from outside with all its children."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lab.bench.collector_child import Job
from lab.bench.meter import Usage
from lab.crash.child import child_environment

_WARM_UP_S = 4.0
_SAMPLE_S = 0.25
_MB = 1e6


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process tree took during a measurement.

    Attributes:
        cpu_ratio: Share of one core.
        peak_bytes: Largest resident memory seen, all processes added up.
    """

    cpu_ratio: float
    peak_bytes: int

    @property
    def cpu_percent(self) -> float:
        """Percent of one core."""
        return self.cpu_ratio * 100

    @property
    def peak_mb(self) -> float:
        """Megabytes."""
        return self.peak_bytes / _MB


@contextmanager
def collector(
    job: Job, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Yield a running collector; one that was not finished, because of an error, is killed.

    Args:
        job: What it collects.
        environment: Variables besides our own, for example those of a GPU host.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "lab.bench.collector_child", job.to_text()],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**child_environment(), **(environment or {})},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def finish(process: subprocess.Popen[str]) -> int:
    """Stop a collector and return how many rows it dropped."""
    process.terminate()
    out, _ = process.communicate(timeout=60)
    return int(json.loads(out)["dropped"])


def watch(
    usages: Sequence[Callable[[], Usage]], seconds: float, warm_up_s: float = _WARM_UP_S
) -> list[Cost]:
    """Return what each process tree takes, once it has warmed up."""
    time.sleep(warm_up_s)
    first = [usage() for usage in usages]
    begin = time.monotonic()
    peaks = [0] * len(usages)
    last = first
    while time.monotonic() - begin < seconds:
        time.sleep(_SAMPLE_S)
        last = [usage() for usage in usages]
        peaks = [max(p, u.resident_bytes) for p, u in zip(peaks, last, strict=True)]
    elapsed = time.monotonic() - begin
    return [
        Cost((after.cpu_s - before.cpu_s) / elapsed, peak)
        for before, after, peak in zip(first, last, peaks, strict=True)
    ]
