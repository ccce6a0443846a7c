"""What it costs to collect all there is, token rows coming from taps through their socket."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.bench.collecting import Cost, collector, finish, watch
from lab.bench.collector_child import Job
from lab.bench.figure import Figure
from lab.bench.gpu_host import GPUS, gpu_host, why_no_gpus
from lab.bench.meter import read_usage
from lab.crash.child import child_environment
from lab.synthetic.engine_page import EngineServer, EngineState
from lab.synthetic.host_tree import HostTree
from stallscope.storage.reader import Lake

RATES = ((20_000, 15.0), (100_000, None))
"""Token rows per second, and the largest share of a core that is good enough, in percent."""

_WARM_UP_S = 10.0  # a tap whose engine has no page is held for five seconds, and then caught up
_SETTLE_S = 2.0
_MOST_MB = 250
_LATE_US = 1_000.0


@dataclass(frozen=True, slots=True)
class _Run:
    """What one run gave.

    Attributes:
        cost: Of the collector and its children.
        sent: What the taps say they sent.
        rows: Token rows in the lake.
        bytes: Their size.
        rows_per_second: Between the first and the last.
        links_per_second: Rows of GPU links, all GPUs together.
        dropped: Rows the collector says it threw away.
    """

    cost: Cost
    sent: Mapping[str, int]
    rows: int
    bytes: int
    rows_per_second: float
    links_per_second: float
    dropped: int

    @property
    def lost(self) -> int:
        """Rows that the taps had and the lake has not."""
        return self.sent["gaps"] + self.sent["unsent"] - self.rows


def measure_taps(seconds: float, repeats: int) -> list[Figure]:
    """Return cost, size and losses at 20,000 and at 100,000 token rows/s, all else included."""
    why_not = why_no_gpus()
    figures = []
    for rate, cpu_bar in RATES:
        runs = [_run(rate, seconds, with_gpus=not why_not) for _ in range(repeats)]
        group = f"collect, {'' if why_not else f'{GPUS} GPUs, '}{rate:,} token rows/s by tap"
        figures += _figures(group, runs, rate, cpu_bar)
        figures.append(_link_rows(group, runs, why_not))
    return figures


def _figures(group: str, runs: Sequence[_Run], rate: int, cpu_bar: float | None) -> list[Figure]:
    memory_bar = _MOST_MB if cpu_bar else None
    held = [run.rows_per_second for run in runs]
    late = [run.sent["late_us"] / _LATE_US for run in runs]
    return [
        Figure(group, "CPU", "% of a core", [run.cost.cpu_percent for run in runs], bar=cpu_bar),
        Figure(group, "memory", "MB", [run.cost.peak_mb for run in runs], bar=memory_bar),
        Figure(group, "token rows sealed", "rows/s", held, bar=0.97 * rate, at_least=True),
        Figure(group, "rows lost on the way", "", [float(run.lost) for run in runs], bar=0),
        Figure(group, "rows told as dropped", "", [float(run.dropped) for run in runs], bar=0),
        Figure(group, "token row, not merged yet", "B", [run.bytes / run.rows for run in runs]),
        Figure(group, "longest delay of the sender", "ms", late),
    ]


def _link_rows(group: str, runs: Sequence[_Run], why_not: str) -> Figure:
    """Return how many GPU links were read: a collector that reads none looks cheap."""
    values = () if why_not else [run.links_per_second for run in runs]
    return Figure(group, "GPU links", "rows/s", values, 0.97 * GPUS, at_least=True, why_not=why_not)


def _run(rate: int, seconds: float, *, with_gpus: bool) -> _Run:
    """Collect from drives, GPUs, an engine's page and eight taps."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stallscope-bench-")))
        tree = stack.enter_context(HostTree(folder / "host"))
        page = stack.enter_context(EngineServer(EngineState()))
        gpus = stack.enter_context(gpu_host(folder)) if with_gpus else {}
        lake, tap_socket = folder / "lake", folder / "tap.sock"
        job = Job(str(lake), str(tree.proc), str(tree.sys), page.url, str(tap_socket))
        process = stack.enter_context(collector(job, gpus))
        with _player(tap_socket, rate) as player:
            (cost,) = watch([lambda: read_usage(process.pid)], seconds, _WARM_UP_S)
            sent = _stop(player)
        time.sleep(_SETTLE_S)
        dropped = finish(process) + _told_as_dropped(lake)
        rows, size = _held(lake)
        return _Run(
            cost, sent, rows, size, _held_rate(lake, "token_gap"), _held_rate(lake, "gpu_link"),
            dropped,
        )  # fmt: skip


@contextmanager
def _player(tap_socket: Path, rate: int) -> Iterator[subprocess.Popen[str]]:
    """Yield running taps; those that were not stopped, because of an error, are killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lab.bench.tap_player", str(tap_socket), str(rate)],
        stdout=subprocess.PIPE,
        text=True,
        env=child_environment(),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def _stop(player: subprocess.Popen[str]) -> Mapping[str, int]:
    player.terminate()
    out, _ = player.communicate(timeout=30)
    sent: Mapping[str, int] = json.loads(out)
    return sent


def _held(lake: Path) -> tuple[int, int]:
    """Return rows and bytes of the tokens in a lake."""
    for table, _, rows, size in Lake(lake).status().tables:
        if table == "token_gap":
            return rows, size
    return 0, 0


def _told_as_dropped(lake: Path) -> int:
    """Return the rows that the collector says never came, or had no place."""
    with Lake(lake).connect(tables=["source_health"]) as connection:
        query = (
            "SELECT sum(dropped) FROM source_health WHERE source IN ('engine_steps', 'token_gaps')"
        )
        return int(connection.execute(query).fetchall()[0][0] or 0)


def _held_rate(lake: Path, table: str) -> float:
    """Return rows per second between the first and the last in a table of the lake."""
    with Lake(lake).connect(tables=[table]) as connection:
        query = f"SELECT count(*), (max(wall_us) - min(wall_us)) / 1e6 FROM {table}"
        rows, seconds = connection.execute(query).fetchall()[0]
    return float(rows / seconds) if seconds else 0.0
