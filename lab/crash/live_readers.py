"""Readers of three kinds on a lake that is being written and merged: errors and freshness."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.crash.child import FeederProcess, child_environment
from lab.crash.plan import Plan
from lab.crash.reading import OutsideReader
from lab.quantity import rank, show_us
from lab.report import Check
from stallscope.storage.layout import open_lake
from stallscope.storage.manifest import read_manifest
from stallscope.units import US_PER_SECOND

_WARM_UP_S = 6.0  # the first catalog with rows in it is about 3 s away
_MERGES_BY_S = 65.0  # a minute ends within 60 s and is merged 2 s later, at the next round
_OUTSIDE = Path(__file__).with_name("outside_watch.py")


@dataclass(frozen=True, slots=True)
class _Bar:
    """How fresh a reader's newest row must be, in microseconds."""

    p50_us: float
    p999_us: float | None


_OWN_BAR = _Bar(0.7 * US_PER_SECOND, 2.0 * US_PER_SECOND)
_OUTSIDE_BAR = _Bar(1.5 * US_PER_SECOND, None)


def watch_live(folder: Path, outside: Sequence[OutsideReader], seconds: float) -> list[Check]:
    """Feed and merge a lake for so long under three readers; freshness is told, errors fail."""
    lake = folder / "lake"
    plan = Plan(lake, folder / "acks", run=1, seconds=seconds + _WARM_UP_S + 4)
    feeder = FeederProcess(plan, folder / "feeder.log")
    feeder.wait_ready()
    time.sleep(_WARM_UP_S)
    own = [sys.executable, "-m", "lab.crash.own_watch", str(lake), str(seconds)]
    catalog = str(open_lake(lake).catalog)
    watchers = [("own reader", _OWN_BAR, _start(own))] + [
        (r.name, _OUTSIDE_BAR, _start([str(r.python), str(_OUTSIDE), catalog, str(seconds)]))
        for r in outside
    ]
    checks = [_judge(name, bar, watcher) for name, bar, watcher in watchers]
    feeder.finish()
    return [*checks, _count_merges(lake, wanted=plan.seconds >= _MERGES_BY_S)]


def _start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
    )


def _judge(name: str, bar: _Bar, watcher: subprocess.Popen[str]) -> Check:
    """Return what a watcher saw; only errors fail, the bars are printed beside the figures."""
    out, err = watcher.communicate()
    if watcher.returncode != 0:
        return Check(f"{name} on a live lake", holds=False, detail=" ".join(err.splitlines()[-1:]))
    seen = json.loads(out)
    ages, errors = seen["ages_us"], seen["errors"]
    p50, p999 = rank(ages, 0.5), rank(ages, 0.999)
    limit = f" (bar {show_us(bar.p999_us)})" if bar.p999_us else ""
    detail = (
        f"{len(errors)} errors in {len(ages)} looks; age of newest row p50 {show_us(p50)} "
        f"(bar {show_us(bar.p50_us)}), p99.9 {show_us(p999)}{limit}"
    )
    first = f"; first error: {errors[0]}" if errors else ""
    return Check(f"{name} on a live lake", bool(ages) and not errors, detail + first)


def _count_merges(lake: Path, *, wanted: bool) -> Check:
    """Return whether segments were merged while the readers looked, where a minute had to end."""
    contents, _ = read_manifest(open_lake(lake).manifest("collect"))
    merged = sum(entry.level > 0 for entry in contents.entries.values())
    return Check("merged under the readers", merged > 0 or not wanted, f"{merged} merged segments")
