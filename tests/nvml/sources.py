"""The GPU sources over the make-believe driver, through a real child."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.edges.nvml_process import NvmlProcess
from collector.gpu_link import GpuLink
from collector.gpu_requests import GpuRequests
from collector.gpu_state import GpuStateSource
from collector.names import StoredNames
from collector.source import Machine, NoData, Reading, Row, SourceError
from lab.nvml.driver import FakeDriver
from stallscope.clock import SystemClock
from stallscope.storage.rows import to_batch
from tests.collector.stand_ins import MemoryStore

GB = 1_000_000_000
PAUSE_S = 0.15
"""Between polls: a GPM rate wants more than 0.1 s."""


@dataclass(frozen=True)
class Host:
    """A machine without buses whose GPUs are those of a make-believe driver."""

    link: GpuLink
    state: GpuStateSource
    process: NvmlProcess
    requests: GpuRequests
    store: MemoryStore

    def close(self) -> None:
        """End the child."""
        self.process.close()

    def poll(self, table: str = "gpu_link", polls: int = 1) -> Sequence[Row]:
        """Return rows of the last of so many polls of the link, a pause before each."""
        reading = self.reading(polls)
        rows = reading.rows[table]
        assert isinstance(rows, Sequence)
        return rows

    def reading(self, polls: int = 1) -> Reading:
        """Return the last of so many readings of the link, a pause before each."""
        for _ in range(polls - 1):
            self._poll()
        return self._poll()

    def _poll(self) -> Reading:
        time.sleep(PAUSE_S)
        reading = self.link.read()
        assert isinstance(reading, Reading), reading
        for table, rows in reading.rows.items():
            to_batch(table, rows)
        return reading

    def states(self) -> Sequence[Row]:
        """Return the rows of a reading of states."""
        reading = self.state.read()
        assert isinstance(reading, Reading), reading
        rows = reading.rows["gpu_state"]
        to_batch("gpu_state", rows)
        assert isinstance(rows, Sequence)
        return rows


def open_host(driver: FakeDriver, folder: Path) -> Host:
    """Return a host over a driver; close it."""
    return make_host({**os.environ, **driver.environment}, folder)


def make_host(environment: dict[str, str], folder: Path) -> Host:
    """Return a host whose child has this environment; close it."""
    clock, store, requests = SystemClock(), MemoryStore(), GpuRequests()
    machine = Machine(folder / "proc", folder / "sys", "host-1", clock, StoredNames(store, clock))
    process = NvmlProcess(environment=environment, clock=clock)
    return Host(
        GpuLink(machine, process.join(), requests=requests),
        GpuStateSource(machine, process.join(), requests=requests),
        process,
        requests,
        store,
    )


def wait_for(reading: Callable[[], Reading | NoData], give_up_s: float = 20) -> Reading:
    """Return the first reading that works, whatever comes before it."""
    give_up = time.monotonic() + give_up_s
    while True:
        try:
            answer = reading()
        except SourceError:
            answer = None
        if isinstance(answer, Reading):
            return answer
        assert time.monotonic() < give_up, "it never worked"
        time.sleep(0.1)
