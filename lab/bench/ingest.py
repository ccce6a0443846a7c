"""What collecting costs, at several loads, and what the rival takes for the signals both have."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.bench.collector_child import Job
from lab.bench.figure import Figure
from lab.bench.meter import Usage, read_usage
from lab.bench.rival import NodeExporter, Prometheus, scrape_config, why_no_rival
from lab.crash.child import child_environment
from lab.crash.clock import real_now_us
from lab.synthetic.engine_page import EngineServer, EngineState
from lab.synthetic.host_tree import HostTree
from stallscope.storage.reader import Lake
from stallscope.units import US_PER_SECOND

_WARM_UP_S = 4.0
_SAMPLE_S = 0.25
_MB = 1e6


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process tree took during a measurement.

    Attributes:
        cpu_ratio: Share of one core.
        peak_bytes: Largest resident memory seen.
    """

    cpu_ratio: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of the collector gave.

    Attributes:
        cost: Of the collector and its children.
        rows_per_second: Token rows in the lake per second of the run.
        dropped: Rows it threw away.
    """

    cost: Cost
    rows_per_second: float
    dropped: int


def measure_ingest(seconds: float, repeats: int) -> list[Figure]:
    """Return the cost of collecting without tokens, at 20,000 and at 100,000 token rows/s."""
    figures = [*_without_engine(seconds, repeats), *_beside_rival(seconds, repeats)]
    for rate, cpu_bar in ((20_000, 15.0), (100_000, None)):
        runs = [_run(rate, seconds) for _ in range(repeats)]
        group = f"collect, {rate:,} token rows/s"
        cpu = [run.cost.cpu_ratio * 100 for run in runs]
        memory = [run.cost.peak_bytes / _MB for run in runs]
        held = [run.rows_per_second for run in runs]
        figures += [
            Figure(group, "CPU", "% of a core", cpu, bar=cpu_bar),
            Figure(group, "memory", "MB", memory, bar=250 if cpu_bar else None),
            Figure(group, "token rows sealed", "rows/s", held, bar=0.97 * rate, at_least=True),
            Figure(group, "rows dropped", "", [float(run.dropped) for run in runs], bar=0),
        ]
    return figures


def _without_engine(seconds: float, repeats: int) -> list[Figure]:
    """Return the cost on a host that has drives and no engine and no GPU."""
    runs = [_run(0, seconds, scrape=False) for _ in range(repeats)]
    group = "collect, no engine, no GPU"
    return [
        Figure(group, "CPU", "% of a core", [run.cost.cpu_ratio * 100 for run in runs], bar=5),
        Figure(group, "memory", "MB", [run.cost.peak_bytes / _MB for run in runs], bar=250),
    ]


def _beside_rival(seconds: float, repeats: int) -> list[Figure]:
    """Return the cost for disks, pressure, memory and the engine page, ours and the rival's."""
    group = "collect, signals both have"
    ours: list[Cost] = []
    theirs: list[Cost] = []
    for _ in range(repeats):
        own, rival = _run_beside_rival(seconds)
        ours.append(own)
        theirs += [rival] if rival else []
    cpu = _texts([cost.cpu_ratio * 100 for cost in theirs], "%")
    memory = _texts([cost.peak_bytes / _MB for cost in theirs], "MB")
    return [
        Figure(group, "CPU", "% of a core", [c.cpu_ratio * 100 for c in ours], rival=cpu),
        Figure(group, "memory", "MB", [c.peak_bytes / _MB for c in ours], rival=memory),
    ]


def _texts(values: Sequence[float], unit: str) -> str:
    """Return the rival's figures as text, or why there are none."""
    if not values:
        return why_no_rival()
    return ", ".join(f"{value:.1f}" for value in values) + f" {unit}"


def _run_beside_rival(seconds: float) -> tuple[Cost, Cost | None]:
    """Run our collector and the rival at once over one host; both poll disks at 10 Hz."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stallscope-bench-")))
        tree = stack.enter_context(HostTree(folder / "host"))
        engine = stack.enter_context(EngineServer(EngineState()))
        process = _start(Job(str(folder / "lake"), str(tree.proc), str(tree.sys), engine.url, 0))
        usages: list[Callable[[], Usage]] = [lambda: read_usage(process.pid)]
        if why_no_rival():
            costs = _watch(usages, seconds)
        else:
            node = stack.enter_context(NodeExporter(tree.proc, tree.sys))
            scrapes = _rival_scrapes(node.port, engine.port)
            prometheus = stack.enter_context(Prometheus(folder, scrapes))
            usages.append(lambda: _sum(node.usage(), prometheus.usage()))
            costs = _watch(usages, seconds)
            _refuse_idle(prometheus)
        _finish(process)
        return costs[0], costs[1] if len(costs) > 1 else None


def _rival_scrapes(node_port: int, engine_port: int) -> str:
    """Return the rival's scrapes, as often as ours."""
    return scrape_config("node", node_port, 100) + scrape_config("engine", engine_port, 1_000)


def _refuse_idle(prometheus: Prometheus) -> None:
    """Raise where the rival scraped nothing: it would look cheap."""
    for job in ("node", "engine"):
        prometheus.query_ms(f'up{{job="{job}"}} == 1', real_now_us() / US_PER_SECOND)


def _run(rate: int, seconds: float, *, scrape: bool = True) -> Run:
    """Run the collector at a rate of token rows, with everything else it has to do."""
    with (
        tempfile.TemporaryDirectory(prefix="stallscope-bench-") as name,
        HostTree(Path(name) / "host") as tree,
        EngineServer(EngineState()) as engine,
    ):
        lake = Path(name) / "lake"
        url = engine.url if scrape else ""
        process = _start(Job(str(lake), str(tree.proc), str(tree.sys), url, rate))
        (cost,) = _watch([lambda: read_usage(process.pid)], seconds)
        dropped = _finish(process)
        return Run(cost, _held_rate(lake), dropped)


def _held_rate(lake: Path) -> float:
    """Return token rows per second between the first and the last in the lake."""
    with Lake(lake).connect(tables=["token_gap"]) as connection:
        query = "SELECT count(*), (max(wall_us) - min(wall_us)) / 1e6 FROM token_gap"
        rows, seconds = connection.execute(query).fetchall()[0]
    return float(rows / seconds) if seconds else 0.0


def _start(job: Job) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lab.bench.collector_child", job.to_text()],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=child_environment(),
    )


def _finish(process: subprocess.Popen[str]) -> int:
    """Stop the collector and return how many rows it dropped."""
    process.terminate()
    out, _ = process.communicate(timeout=60)
    return int(json.loads(out)["dropped"])


def _watch(usages: Sequence[Callable[[], Usage]], seconds: float) -> list[Cost]:
    """Return what each process tree takes, once it has warmed up."""
    time.sleep(_WARM_UP_S)
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


def _sum(*usages: Usage) -> Usage:
    return Usage(sum(u.cpu_s for u in usages), sum(u.resident_bytes for u in usages))
