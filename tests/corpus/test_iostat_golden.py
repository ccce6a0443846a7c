"""Every cell of iostat's extended report, from the same four states of one machine.

Where iostat and we differ on purpose:

* A counter fell between both states, so the device was replaced: iostat prints the figures since
  boot over the interval, we report a gap.
* A device was not there before: the same.
* A mean over no operations, or of a field the kernel does not print: iostat prints 0.00, we say
  that it is unknown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from collector.disk_rates import Gap, measure, subtract
from collector.diskstats import Statistics, parse_listing, parse_statistics

_HALF_A_DIGIT = 0.005 + 1e-9
_KIB = 1024
_SINCE_BOOT: Statistics = (0,) * 17
_NO_MILLISECONDS = (0, 1, 2, 4, 5, 6, 11, 12, 13, 15)  # columns of a line that are unsigned long
_PER_SECOND = {
    "rs": "reads", "rrqm": "read_merges", "ws": "writes", "wrqm": "write_merges",
    "ds": "discards", "drqm": "discard_merges", "fs": "flushes",
}  # fmt: skip
_KIB_PER_SECOND = {"rkB": "read_bytes", "wkB": "write_bytes", "dkB": "discard_bytes"}
_AWAIT = {
    "r_await": ("read_await_mean_us", "reads"),
    "w_await": ("write_await_mean_us", "writes"),
    "d_await": ("discard_await_mean_us", "discards"),
    "f_await": ("flush_await_mean_us", "flushes"),
}
_REQUEST_KIB = {
    "rareq": ("read_bytes", "reads"),
    "wareq": ("write_bytes", "writes"),
    "dareq": ("discard_bytes", "discards"),
}


class _Golden(NamedTuple):
    before: int | None
    after: int
    device: str
    seconds: float
    cells: dict[str, float]


@pytest.fixture(scope="module")
def folder(corpus: Path) -> Path:
    return corpus / "host/sysstat"


@pytest.fixture(scope="module")
def golden(folder: Path) -> list[_Golden]:
    rows = json.loads((folder / "golden_rows.json").read_text(encoding="utf-8"))
    return [_Golden(row["r1"], row["r2"], row["dev"], row["itv"], row["exp"]) for row in rows]


def _lines(folder: Path, state: int) -> dict[str, str]:
    text = (folder / f"root{state}/proc/diskstats").read_text(encoding="ascii")
    listing = parse_listing(text)
    assert listing.rejects == 0
    return {line.key.name: line.statistics for line in listing.lines}


def _fell(before: str, after: str) -> bool:
    """Return whether a counter that cannot wrap fell, from the bare words of both lines."""
    old, new = before.split(), after.split()
    shared = min(len(old), len(new))
    return any(int(new[i]) < int(old[i]) for i in _NO_MILLISECONDS if i < shared)


def _kind(folder: Path, row: _Golden) -> str:
    """Return what we should make of a row, judged by the files alone."""
    if row.before is None:
        return "since boot"
    before, after = _lines(folder, row.before), _lines(folder, row.after)
    if row.device not in before:
        return "appeared"
    return "fell" if _fell(before[row.device], after[row.device]) else "interval"


def _statistics(folder: Path, state: int | None, device: str) -> Statistics:
    if state is None:
        return _SINCE_BOOT
    statistics = parse_statistics(_lines(folder, state)[device])
    assert statistics is not None
    return statistics


def _difference(folder: Path, row: _Golden) -> Statistics | Gap:
    before = _statistics(folder, row.before, row.device)
    after = _statistics(folder, row.after, row.device)
    return subtract(before, after, round(row.seconds * 1_000_000))


def _number(columns: dict[str, object], name: str) -> float | None:
    value = columns[name]
    assert value is None or isinstance(value, int | float)
    return value


def _cells(columns: dict[str, object], seconds: float) -> dict[str, float | None]:
    """Return iostat's cells from our columns."""
    cells: dict[str, float | None] = {}
    for cell, column in _PER_SECOND.items():
        value = _number(columns, column)
        cells[cell] = None if value is None else value / seconds
    for cell, column in _KIB_PER_SECOND.items():
        value = _number(columns, column)
        cells[cell] = None if value is None else value / _KIB / seconds
    for cell, (column, _) in _AWAIT.items():
        value = _number(columns, column)
        cells[cell] = None if value is None else value / 1000
    for cell, (column, count) in _REQUEST_KIB.items():
        value, operations = _number(columns, column), _number(columns, count)
        cells[cell] = None if value is None or not operations else value / _KIB / operations
    cells["aqu"] = _number(columns, "queue_mean")
    busy = _number(columns, "busy_raw_ratio")
    cells["util"] = None if busy is None else busy * 100
    return cells


def _may_be_unknown(folder: Path, row: _Golden, cell: str) -> bool:
    """Return whether iostat's 0.00 stands for "no operations" or "no such field"."""
    words = _lines(folder, row.after)[row.device].split()
    old = [] if row.before is None else _lines(folder, row.before)[row.device].split()
    count = {"r": 0, "w": 4, "d": 11, "f": 15}[cell[0]]
    needed = 15 if cell[0] == "d" else count + 1
    if len(words) < needed:
        return True
    is_mean = cell.endswith(("await", "areq"))
    before = int(old[count]) if count < len(old) else 0
    return is_mean and int(words[count]) == before


def test_the_table_is_the_one_we_know(golden: list[_Golden]) -> None:
    assert len(golden) == 114
    assert {len(row.cells) for row in golden} == {19}


def test_every_cell_is_iostats_to_the_printed_digit(folder: Path, golden: list[_Golden]) -> None:
    compared = unknown = 0
    for row in golden:
        if _kind(folder, row) not in {"since boot", "interval"}:
            continue
        deltas = _difference(folder, row)
        assert not isinstance(deltas, Gap), (row, deltas)
        cells = _cells(measure(deltas, round(row.seconds * 1_000_000)), row.seconds)
        assert cells.keys() == row.cells.keys()
        for cell, expected in row.cells.items():
            value = cells[cell]
            if value is None:
                assert expected == 0.0, (row, cell)
                assert _may_be_unknown(folder, row, cell), (row, cell)
                unknown += 1
            else:
                assert abs(value - expected) <= _HALF_A_DIGIT, (row, cell, value)
                compared += 1
    assert compared + unknown == (114 - 6) * 19


def test_where_a_counter_fell_there_is_a_gap_and_nowhere_else(
    folder: Path, golden: list[_Golden]
) -> None:
    gaps = {
        (row.before, row.after, row.device)
        for row in golden
        if _kind(folder, row) != "appeared" and _difference(folder, row) is Gap.COUNTER_FELL
    }
    fell = {(row.before, row.after, row.device) for row in golden if _kind(folder, row) == "fell"}
    assert gaps == fell == {(2, 3, "sdb"), (3, 4, "sda"), (3, 4, "sda1"), (3, 4, "sds")}


def test_in_those_places_iostat_prints_since_boot_over_the_interval(
    folder: Path, golden: list[_Golden]
) -> None:
    others = [row for row in golden if _kind(folder, row) in {"fell", "appeared"}]
    assert {row.device for row in others} == {"sdb", "sda", "sda1", "sds", "sdf", "sdg"}
    for row in others:
        reads = int(_lines(folder, row.after)[row.device].split()[0])
        assert abs(reads / row.seconds - row.cells["rs"]) <= _HALF_A_DIGIT
