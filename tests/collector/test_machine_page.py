"""The whole /metrics page of a recorded machine, byte by byte."""

from __future__ import annotations

from collections.abc import Callable

from collector.block_device import BlockDevice
from collector.host_pressure import HostPressure
from collector.names import StoredNames
from collector.source import Machine, Reading, Source
from stallscope.exposition.latest import Row
from stallscope.exposition.page import Page, render
from tests.collector.stand_ins import ManualClock, MemoryStore
from tests.conftest import REPO

_CAPTURE = "linux-6.8__2-nvme-lvm__psi__vllm"
_POLL_US = 100_000


def _read_twice(source: Source, page: Page, clock: ManualClock) -> None:
    """Show what a source reads; the second reading has a window."""
    for _ in range(2):
        clock.advance(_POLL_US)
        reading = source.read()
        assert isinstance(reading, Reading)
        for table, rows in reading.rows.items():
            page.observe(table, rows, _POLL_US)
    source.close()


def test_the_page_is_the_recorded_one(golden: Callable[[str, str], None]) -> None:
    folder = REPO / "tests/captures/machines" / _CAPTURE
    store, clock = MemoryStore(), ManualClock()
    machine = Machine(folder / "proc", folder / "sys", "host-1", clock, StoredNames(store, clock))

    def find_fact(kind: str, number: int) -> Row | None:
        return next((row for row in store.stored[kind] if row[kind] == number), None)

    page = Page(find_fact, clock, {"version": "0", "schema_version": "1", "host": "host-1"})
    _read_twice(BlockDevice(machine), page, clock)
    _read_twice(HostPressure(machine), page, clock)
    golden(f"metrics/{_CAPTURE}.prom", render(page, "text/plain;version=0.0.4")[1].decode())
