from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from collector.edges.own_process import read_own_cost


def test_cpu_time_grows_with_work_and_not_with_sleep() -> None:
    before = read_own_cost().cpu_us
    end = time.thread_time_ns() + 50_000_000
    while time.thread_time_ns() < end:
        pass
    assert read_own_cost().cpu_us - before >= 50_000


def test_resident_memory_is_that_of_this_process() -> None:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    rss_kib = next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)
    resident = read_own_cost().resident_bytes
    assert resident is not None
    # Two readings of a living process: a few pages may lie between them.
    assert abs(resident - rss_kib * 1_024) < 8 << 20


@pytest.mark.parametrize("text", ["", "12", "a b c", None])
def test_what_cannot_be_read_is_not_zero(tmp_path: Path, text: str | None) -> None:
    statm = tmp_path / "statm"
    if text is not None:
        statm.write_text(text, encoding="ascii")
    assert read_own_cost(statm).resident_bytes is None


def test_pages_are_turned_into_bytes(tmp_path: Path) -> None:
    statm = tmp_path / "statm"
    statm.write_text("5000 25 17 1 0 4000 0\n", encoding="ascii")
    assert read_own_cost(statm).resident_bytes == 25 * os.sysconf("SC_PAGE_SIZE")
