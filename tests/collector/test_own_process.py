from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collector.edges.own_process import read_own_cost

_PAGE = os.sysconf("SC_PAGE_SIZE")


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
    if text is not None:
        _write(tmp_path / "self/statm", text)
    assert read_own_cost(tmp_path / "self").resident_bytes is None


def test_pages_are_turned_into_bytes(tmp_path: Path) -> None:
    _write(tmp_path / "self/statm", "5000 25 17 1 0 4000 0\n")
    assert read_own_cost(tmp_path / "self").resident_bytes == 25 * _PAGE


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_children_of_every_thread_are_added_and_those_that_ended_are_not_missed(
    tmp_path: Path,
) -> None:
    bare = read_own_cost(tmp_path / "self").cpu_us
    _write(tmp_path / "self/statm", "5000 25 17 1 0 4000 0\n")
    _write(tmp_path / "self/task/70/children", "81 ")
    _write(tmp_path / "self/task/71/children", "82 83 ")
    _write(tmp_path / "81/statm", "900 10 3 1 0 300 0\n")
    # The name may hold anything; user and system time are fields 14 and 15, in clock ticks.
    _write(tmp_path / "81/stat", "81 (a (b) c) S 1 81 81 0 -1 0 0 0 0 0 7000 500 0 0 20 0 1 0 9")
    _write(tmp_path / "82/stat", "82 (torn")
    cost = read_own_cost(tmp_path / "self")
    assert cost.resident_bytes == 35 * _PAGE
    told = 7_500 * 1_000_000 // os.sysconf("SC_CLK_TCK")
    assert told <= cost.cpu_us - bare < told + 10_000_000


def test_a_child_that_works_is_seen_while_it_lives_and_when_it_has_ended() -> None:
    program = "while True: pass"
    before = read_own_cost().cpu_us
    child = subprocess.Popen([sys.executable, "-c", program])
    give_up = time.monotonic() + 20
    own_ns = time.process_time_ns()
    while time.monotonic() < give_up:
        own_us = (time.process_time_ns() - own_ns) // 1_000
        if read_own_cost().cpu_us - before - own_us > 300_000:
            break
        time.sleep(0.02)
    alive = read_own_cost().cpu_us
    child.kill()
    child.wait()
    assert alive - before > 300_000
    assert read_own_cost().cpu_us >= alive - 20_000, "a clock tick may be lost between the two"
