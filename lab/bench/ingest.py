"""What collecting costs without tokens, and what the rival takes for the signals both have."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.bench.collecting import Cost, collector, finish, watch
from lab.bench.collector_child import Job
from lab.bench.figure import Figure
from lab.bench.meter import Usage, read_usage
from lab.bench.rival import NodeExporter, Prometheus, scrape_config, why_no_rival
from lab.crash.clock import real_now_us
from lab.synthetic.engine_page import EngineServer, EngineState
from lab.synthetic.host_tree import HostTree
from stallscope.units import US_PER_SECOND


def measure_ingest(seconds: float, repeats: int) -> list[Figure]:
    """Return the cost of collecting without an engine, and of what the rival collects too."""
    return [*_without_engine(seconds, repeats), *_beside_rival(seconds, repeats)]


def _without_engine(seconds: float, repeats: int) -> list[Figure]:
    """Return the cost on a host that has drives and no engine and no GPU."""
    costs = [_run_alone(seconds) for _ in range(repeats)]
    group = "collect, no engine, no GPU"
    return [
        Figure(group, "CPU", "% of a core", [cost.cpu_percent for cost in costs], bar=5),
        Figure(group, "memory", "MB", [cost.peak_mb for cost in costs], bar=250),
    ]


def _run_alone(seconds: float) -> Cost:
    with tempfile.TemporaryDirectory(prefix="stallscope-bench-") as name:
        folder = Path(name)
        with HostTree(folder / "host") as tree:
            job = Job(str(folder / "lake"), str(tree.proc), str(tree.sys))
            with collector(job) as process:
                (cost,) = watch([lambda: read_usage(process.pid)], seconds)
                finish(process)
        return cost


def _beside_rival(seconds: float, repeats: int) -> list[Figure]:
    """Return the cost for disks, pressure, memory and the engine page, ours and the rival's."""
    group = "collect, signals both have"
    ours: list[Cost] = []
    theirs: list[Cost] = []
    for _ in range(repeats):
        own, rival = _run_beside_rival(seconds)
        ours.append(own)
        theirs += [rival] if rival else []
    cpu = _texts([cost.cpu_percent for cost in theirs], "%")
    memory = _texts([cost.peak_mb for cost in theirs], "MB")
    return [
        Figure(group, "CPU", "% of a core", [c.cpu_percent for c in ours], rival=cpu),
        Figure(group, "memory", "MB", [c.peak_mb for c in ours], rival=memory),
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
        job = Job(str(folder / "lake"), str(tree.proc), str(tree.sys), engine.url)
        process = stack.enter_context(collector(job))
        usages: list[Callable[[], Usage]] = [lambda: read_usage(process.pid)]
        if why_no_rival():
            costs = watch(usages, seconds)
        else:
            node = stack.enter_context(NodeExporter(tree.proc, tree.sys))
            scrapes = _rival_scrapes(node.port, engine.port)
            prometheus = stack.enter_context(Prometheus(folder, scrapes))
            usages.append(lambda: _sum(node.usage(), prometheus.usage()))
            costs = watch(usages, seconds)
            _refuse_idle(prometheus)
        finish(process)
        return costs[0], costs[1] if len(costs) > 1 else None


def _rival_scrapes(node_port: int, engine_port: int) -> str:
    """Return the rival's scrapes, as often as ours."""
    return scrape_config("node", node_port, 100) + scrape_config("engine", engine_port, 1_000)


def _refuse_idle(prometheus: Prometheus) -> None:
    """Raise where the rival scraped nothing: it would look cheap."""
    for job in ("node", "engine"):
        prometheus.query_ms(f'up{{job="{job}"}} == 1', real_now_us() / US_PER_SECOND)


def _sum(*usages: Usage) -> Usage:
    return Usage(sum(u.cpu_s for u in usages), sum(u.resident_bytes for u in usages))
