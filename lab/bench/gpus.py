"""What reading eight GPUs costs, by the way their links are measured."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.bench.collecting import Cost, collector, finish, watch
from lab.bench.collector_child import Job
from lab.bench.figure import Figure
from lab.bench.gpu_host import GPUS, METHODS, gpu_host, why_no_gpus
from lab.bench.meter import read_usage
from lab.synthetic.host_tree import HostTree
from stallscope.storage.reader import Lake

_COUNTED = """
SELECT
    (count(*) - count(DISTINCT device)) / (max(mono_us) - min(mono_us)) * 1e6,
    median(call_us),
    median(coverage_ratio)
FROM gpu_link WHERE method = ? AND rx_window_mean_bytes_per_second IS NOT NULL"""


@dataclass(frozen=True, slots=True)
class _Run:
    """What one run gave.

    Attributes:
        cost: Of the collector and its children.
        rows_per_second: Rows with a rate by the wanted method, all GPUs together.
        call_us: Time in the driver per GPU and poll, median.
        coverage_ratio: Share of a window that was measured, median.
    """

    cost: Cost
    rows_per_second: float
    call_us: float
    coverage_ratio: float


def measure_gpus(seconds: float, repeats: int) -> list[Figure]:
    """Return the cost of host and eight GPUs at 1 s by each method, and at 5 Hz by the best."""
    if why_not := why_no_gpus():
        return [Figure("collect, 8 GPUs", "CPU", "% of a core", why_not=why_not)]
    figures = []
    for method in METHODS:
        figures += _figures(method, seconds, repeats, burst=False)
    return figures + _figures(METHODS[0], seconds, repeats, burst=True)


def _figures(method: str, seconds: float, repeats: int, *, burst: bool) -> list[Figure]:
    runs = [_run(method, seconds, burst=burst) for _ in range(repeats)]
    pace_hz = 5 if burst else 1
    group = f"collect, {GPUS} GPUs at {pace_hz} Hz, {method}"
    rows = [run.rows_per_second for run in runs]
    return [
        Figure(group, "CPU", "% of a core", [run.cost.cpu_percent for run in runs]),
        Figure(group, "memory", "MB", [run.cost.peak_mb for run in runs]),
        Figure(group, "link rows", "rows/s", rows, bar=0.97 * GPUS * pace_hz, at_least=True),
        Figure(group, "in the driver per GPU and poll", "us", [run.call_us for run in runs]),
        Figure(group, "share of time measured", "", [run.coverage_ratio for run in runs]),
    ]


def _run(method: str, seconds: float, *, burst: bool) -> _Run:
    """Collect from a host with drives and GPUs and no engine."""
    with tempfile.TemporaryDirectory(prefix="stallscope-bench-") as name:
        folder = Path(name)
        with HostTree(folder / "host") as tree, gpu_host(folder, (method,)) as environment:
            job = Job(str(folder / "lake"), str(tree.proc), str(tree.sys), burst=burst)
            with collector(job, environment) as process:
                (cost,) = watch([lambda: read_usage(process.pid)], seconds)
                finish(process)
        return _Run(cost, *_counted(folder / "lake", method))


def _counted(lake: Path, method: str) -> tuple[float, float, float]:
    with Lake(lake).connect(tables=["gpu_link"]) as connection:
        row = connection.execute(_COUNTED, [method]).fetchall()[0]
    rows, call_us, coverage = (float(value or 0) for value in row)
    return rows, call_us, coverage
