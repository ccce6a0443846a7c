"""Bytes on disk: per token row and per gauge sample, ours after merging, and the rival's."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from lab.bench.figure import Figure
from lab.bench.rival import folder_bytes, why_no_rival
from lab.synthetic.gauges import disk_rows, link_rows, pressure_rows, state_rows, value_cells
from lab.synthetic.lake_maker import LakeMaker
from lab.synthetic.tokens import make_tape, usual_running
from stallscope.units import US_PER_SECOND

BEGIN_US = 1_700_000_000 * US_PER_SECOND
_TOKEN_S = 60
_GAUGE_S = 600


def measure_sizes() -> list[Figure]:
    """Return bytes per token row and per gauge sample."""
    figures = [
        Figure("disk", f"token row, {name}", "B", [_token_bytes(running)], bar=5.2)
        for name, running in (
            ("8 engines, 16-256 running", usual_running(8)),
            ("1 engine, 128 running", [128]),
        )
    ]
    ours, theirs = _gauge_bytes()
    figures.append(Figure("disk", "gauge sample", "B", [ours], bar=0.7, rival=theirs))
    return figures


def _token_bytes(running: Sequence[int]) -> float:
    """Return bytes per token row of one merged segment."""
    tape = make_tape(20_000, _TOKEN_S, running)
    rows = tape.rows(0, len(tape.offset_us), BEGIN_US)
    with tempfile.TemporaryDirectory() as folder, LakeMaker(Path(folder)) as maker:
        entry = maker.add("token_gap", pa.Table.from_batches([rows]))
    return entry.bytes / entry.rows


def _gauge_bytes() -> tuple[float, str]:
    """Return our bytes per sample over all gauge tables, and the rival's for the same values."""
    tables = gauge_tables(_GAUGE_S)
    samples = sum(value_cells(name, rows) for name, rows in tables.items())
    with tempfile.TemporaryDirectory() as name:
        with LakeMaker(Path(name) / "lake") as maker:
            size = sum(maker.add(table, rows).bytes for table, rows in tables.items())
        return size / samples, _rival_bytes(Path(name), tables["block_device"])


def gauge_tables(seconds: int) -> dict[str, pa.Table]:
    """Return rows of 10 drives and the host at 10 Hz and of 8 GPUs at 1 s."""
    dice = np.random.default_rng(2)
    fast = _walls(dice, seconds, 100_000)
    slow = _walls(dice, seconds, US_PER_SECOND)
    return {
        "block_device": _table(disk_rows, dice, fast, 10, 100_000),
        "host_pressure": pa.Table.from_batches([pressure_rows(dice, fast, 100_000)]),
        "gpu_link": _table(link_rows, dice, slow, 8, US_PER_SECOND),
        "gpu_state": _table(state_rows, dice, slow, 8, US_PER_SECOND),
    }


def _walls(
    dice: np.random.Generator, seconds: int, interval_us: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return poll times with the jitter of a real poll."""
    count = seconds * US_PER_SECOND // interval_us
    return BEGIN_US + np.arange(count) * interval_us + dice.integers(0, 800, count)


_Make = Callable[
    [np.random.Generator, np.ndarray[tuple[int], np.dtype[np.int64]], int, int], pa.RecordBatch
]


def _table(
    make: _Make,
    dice: np.random.Generator,
    walls: np.ndarray[tuple[int], np.dtype[np.int64]],
    devices: int,
    interval_us: int,
) -> pa.Table:
    return pa.Table.from_batches(
        [make(dice, walls, device, interval_us) for device in range(devices)]
    )


_RIVAL_COLUMNS = ("reads", "read_bytes", "writes", "write_bytes", "in_flight", "queue_mean")


def _rival_bytes(folder: Path, disks: pa.Table) -> str:
    """Return Prometheus' bytes per sample for some columns of the drives, as it blocks them."""
    if why_no_rival():
        return why_no_rival()
    text = folder / "samples.txt"
    rows = disks.select(["wall_us", "device", *_RIVAL_COLUMNS]).to_pylist()
    with text.open("w", encoding="ascii") as file:
        for column in _RIVAL_COLUMNS:
            file.write(f"# TYPE lab_{column} gauge\n")
            for row in rows:
                stamp = row["wall_us"] // 1_000 / 1_000
                file.write(f'lab_{column}{{device="{row["device"]}"}} {row[column]:.7g} {stamp}\n')
        file.write("# EOF\n")
    blocks = folder / "blocks"
    backfill(text, blocks)
    return f"{folder_bytes(blocks) / (len(rows) * len(_RIVAL_COLUMNS)):.2f} B (Prometheus, drives)"


def backfill(text: Path, blocks: Path) -> None:
    """Turn OpenMetrics text with times into Prometheus blocks."""
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(blocks)]
    subprocess.run(command, check=True, capture_output=True)
