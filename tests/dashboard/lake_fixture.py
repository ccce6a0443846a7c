"""A made-up host with two engines and four disks: the same story at every call, up to a moment.

Four minutes before the end, KV reloads from nvme2 begin to hold up engine rag-long; seven minutes
before the end it was restarted with a smaller KV pool. Every number follows from the second it
belongs to, so a lake can be built at once or be fed second by second.

Run it to have something to look at: ``python tests/dashboard/lake_fixture.py LAKE --follow``.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from stallscope.clock import SystemClock
from stallscope.storage.direct import seal_directly
from stallscope.storage.layout import create_lake
from stallscope.storage.writer import Writer, WriterOptions
from tests.dashboard import gpu_fixture, tap_fixture

S = 1_000_000
MS = 1_000
HOST = "gpu-eu1-07"
INCIDENT_S = 255
RESTART_S = 431
NASTY = "<img src=x onerror=alert(1)>![x](http://192.0.2.1/x.png)"
ITL_BOUNDS = [
    int(ms * MS)
    for ms in (
        10,
        25,
        50,
        75,
        100,
        150,
        200,
        300,
        400,
        500,
        750,
        1000,
        2500,
        5000,
        7500,
        10_000,
        20_000,
        40_000,
        80_000,
    )
]
TTFT_BOUNDS = [
    int(ms * MS)
    for ms in (
        1,
        5,
        10,
        20,
        40,
        60,
        80,
        100,
        250,
        500,
        750,
        1000,
        2500,
        5000,
        7500,
        10_000,
        20_000,
        40_000,
        80_000,
        160_000,
        640_000,
        2_560_000,
    )
]
E2E_BOUNDS = [
    int(ms * MS)
    for ms in (
        300,
        500,
        800,
        1000,
        1500,
        2000,
        2500,
        5000,
        10_000,
        15_000,
        20_000,
        30_000,
        40_000,
        50_000,
        60_000,
        120_000,
        240_000,
        480_000,
        960_000,
        1_920_000,
        7_680_000,
    )
]
_RESTRICTED = (
    "2 of 214 processes unreadable: /proc/PID/schedstat needs the same user or CAP_SYS_PTRACE."
)
Row = dict[str, object]
Rows = dict[str, list[Row]]


@dataclass(frozen=True)
class Engine:
    """A made-up engine."""

    id: int
    name: str
    itl_ms: float
    running: float
    suffers: bool


@dataclass(frozen=True)
class Host:
    """What the made-up host has."""

    engines: tuple[Engine, ...] = (
        Engine(1, "rag-long", 27, 46, suffers=True),
        Engine(2, "code", 18, 22, suffers=False),
    )
    disks: int = 4
    hz: int = 2
    tiers: bool = True
    gpus: int = 0
    gpu_model: str = "NVIDIA A100 80GB PCIe"
    taps: bool = False


def _noise(seed: int, second: float) -> float:
    """Return a number from -1 to 1 that follows from its arguments alone."""
    return math.sin(second * 12.9898 + seed * 78.233) * 0.5 + math.sin(second * 1.7 + seed) * 0.5


def severity(to_end_s: float) -> float:
    """Return how bad the incident is, 0 to 1, so many seconds before the end."""
    if to_end_s > INCIDENT_S:
        return 1.0 if 788 < to_end_s < 792 else 0.0
    since = INCIDENT_S - to_end_s
    return min(1.0, since / 12) * (0.62 + 0.38 * math.sin(since / 9.0))


def facts(host: Host, at_us: int) -> Rows:
    """Return names of engines, disks and GPUs, and what hangs where."""
    rows: Rows = {
        "engine": [
            {
                "wall_us": at_us,
                "engine": e.id,
                "host": HOST,
                "endpoint": f"http://127.0.0.1:{7999 + e.id}/metrics",
                "rank": "0",
                "model": f"{e.name}-70b",
                "name": e.name,
                "kind": "vllm",
                "config_hash": "c0ffee",
                "version": "0.33.0",
            }
            for e in host.engines
        ],
        "device": [
            {
                "wall_us": at_us,
                "device": d,
                "kind": "disk",
                "name": f"nvme{d}n1",
                "role": "nvme",
                "model": "Lab 3.84 TB",
                "counted": True,
            }
            for d in range(host.disks)
        ],
    }
    if host.gpus:
        _add(rows, gpu_fixture.gpu_facts(host.gpus, host.gpu_model, at_us))
    return rows


def _add(rows: Rows, more: Rows) -> None:
    for table, found in more.items():
        rows.setdefault(table, []).extend(found)


def second(host: Host, at_us: int, end_us: int) -> Rows:
    """Return every row of one second."""
    to_end = (end_us - at_us) / S
    rows: Rows = {
        "engine_metrics": [_scrape(host, e, at_us, to_end) for e in host.engines],
        "engine_histogram": [h for e in host.engines for h in _histograms(host, e, at_us, to_end)],
        "block_device": list(_disks(host, at_us, to_end)),
        "host_pressure": list(_pressure(host, at_us, to_end)),
        "source_health": list(_health(host, at_us)),
    }
    if host.gpus:
        _add(rows, gpu_fixture.gpu_second(host.gpus, at_us, severity(to_end)))
    for e in host.engines if host.taps else ():
        route = NASTY if e.name == NASTY else ""
        _add(rows, tap_fixture.tap_second(e.id, e.itl_ms, at_us, route))
    if 0 <= to_end - RESTART_S < 1 and host.engines:
        rows["change_event"] = [
            {
                "wall_us": at_us,
                "mono_us": at_us,
                "engine": host.engines[0].id,
                "kind": "engine_restarted",
                "text": f"{host.engines[0].name} restarted",
            }
        ]
    return rows


def _scrape(host: Host, engine: Engine, at_us: int, to_end: float) -> Row:
    bad = severity(to_end) if engine.suffers else 0.0
    tick = at_us // S
    prompt = round(9_000 + 2_000 * _noise(engine.id, tick))
    pool = 0.94 if engine.suffers and to_end < RESTART_S else 0.71
    row: Row = {
        "wall_us": at_us,
        "mono_us": at_us,
        "engine": engine.id,
        "window_us": S,
        "scrape_us": 6_100,
        "restarted": False,
        "partial": False,
        "rejected_lines": 0,
        "duplicates": 0,
        "running": max(1, round(engine.running + 4 * _noise(engine.id + 3, tick / 7))),
        "waiting": round(bad * 9 + max(0.0, _noise(engine.id, tick / 3) - 0.9) * 8),
        "kv_usage_ratio": min(1.0, pool + 0.03 * _noise(engine.id + 5, tick / 11)),
        "prompt_tokens_delta": prompt,
        "generation_tokens_delta": round(engine.running * 30),
        "preemptions_delta": 1 if bad > 0.98 else 0,
        "prefix_queries_delta": prompt,
        "prefix_hits_delta": round(prompt * (0.62 - 0.36 * bad)),
    }
    if host.tiers:
        row |= {
            "cached_device_delta": round(prompt * (0.60 - 0.36 * bad)),
            "cached_host_delta": round(prompt * (0.18 + 0.26 * bad)),
            "cached_disk_delta": round(prompt * (0.06 + 0.05 * bad)),
            "cached_p2p_delta": 0,
            "cached_external_delta": 0,
        }
    if host.gpus and engine.suffers:
        copied = gpu_fixture.load_saturation(tick, bad)
        row |= {
            "load_bytes_delta": round(0.7 * copied * gpu_fixture.RX_CEILING),
            "load_time_us_delta": round(0.7 * copied * S),
            "store_bytes_delta": 900_000_000,
            "store_time_us_delta": 36_000,
        }
    return row


def _histograms(host: Host, engine: Engine, at_us: int, to_end: float) -> Iterator[Row]:
    bad = severity(to_end) if engine.suffers else 0.12 * severity(to_end)
    random = np.random.default_rng((engine.id, at_us // S))
    steps = engine.itl_ms * MS * np.exp(0.16 * random.standard_normal(600))
    if host.gpus and engine.suffers:
        steps += MS * gpu_fixture.added_ms(at_us // S, severity(to_end + 1))
    held = random.random(600) < 0.05 * bad
    gaps = np.where(held, steps * (2 + 5 * bad), steps)
    yield _histogram(engine, at_us, "itl_us", gaps, ITL_BOUNDS)
    first = 420 * MS * (1 + 7 * bad) * np.exp(0.45 * random.standard_normal(3))
    yield _histogram(engine, at_us, "ttft_us", first, TTFT_BOUNDS)
    whole = 9_000 * MS * (1 + 1.2 * bad) * np.exp(0.5 * random.standard_normal(3))
    yield _histogram(engine, at_us, "e2e_us", whole, E2E_BOUNDS)


def _histogram(
    engine: Engine,
    at_us: int,
    family: str,
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
    bounds: Sequence[int],
) -> Row:
    counts = np.bincount(np.searchsorted(bounds, values), minlength=len(bounds) + 1)
    return {
        "wall_us": at_us,
        "mono_us": at_us,
        "engine": engine.id,
        "window_us": S,
        "family": family,
        "observations": len(values),
        "sum": int(values.sum()),
        "bounds": list(bounds),
        "counts": counts.tolist(),
    }


def _disks(host: Host, at_us: int, to_end: float) -> Iterator[Row]:
    for tick in range(host.hz):
        wall = at_us + tick * S // host.hz
        for disk in range(host.disks):
            bad = severity(to_end) if disk == 2 else 0.0
            wave = _noise(disk, wall / S)
            yield {
                "wall_us": wall,
                "mono_us": wall,
                "device": disk,
                "window_us": S // host.hz,
                "reads": round(900 * (1 + bad)),
                "writes": 120,
                "read_bytes": round(9e7 * (1 + 6 * bad)),
                "write_bytes": 8_000_000,
                "read_await_mean_us": 150 + 40 * wave + 820 * bad * (0.8 + 0.2 * wave),
                "write_await_mean_us": 38 + 6 * wave,
                "queue_mean": 0.6 + 0.2 * wave + 15 * bad,
                "in_flight": round(1 + 14 * bad),
                "busy_ratio": min(1.0, 0.2 + 0.8 * bad),
                "io_stuck_candidate": False,
            }


def _pressure(host: Host, at_us: int, to_end: float) -> Iterator[Row]:
    bad = severity(to_end)
    for tick in range(host.hz):
        wall = at_us + tick * S // host.hz
        wave = _noise(9, wall / S)
        yield {
            "wall_us": wall,
            "mono_us": wall,
            "scope": "system",
            "window_us": S // host.hz,
            "cpu_some_ratio": 0.06 + 0.02 * wave,
            "cpu_full_ratio": 0.0,
            "memory_some_ratio": max(0.0, 0.012 * bad + 0.002 * wave),
            "memory_full_ratio": 0.0,
            "io_some_ratio": max(0.0, 0.02 + 0.01 * wave + 0.31 * bad),
            "io_full_ratio": 0.2 * bad,
            "memory_available_bytes": 412 << 30,
            "memory_total_bytes": 1 << 40,
        }


def _health(host: Host, at_us: int) -> Iterator[Row]:
    gpus: tuple[tuple[str, tuple[str, str | None], int, int, int], ...] = ()
    if host.gpus:
        gpus = (
            ("gpu_link", ("working", None), 1, host.gpus, 2_600),
            ("topology", ("working", None), 1, 0, 90),
        )
    taps = (("engine_steps", ("working", None), 10, 90, 1_900),
            ("token_gaps", ("working", None), 10, 300, 2_700))  # fmt: skip
    found = bool(host.engines)
    engine = (
        ("working", None)
        if found
        else (
            "not_found",
            "no engine on local ports (8000: refused; 8001: refused; 8080: answers, but no engine)",
        )
    )
    sources: tuple[tuple[str, tuple[str, str | None], int, int, int], ...] = (
        ("engine_metrics", engine, 1, 24 * len(host.engines), 3_900 if found else 110),
        ("engine_process", ("restricted", _RESTRICTED), 1, 4, 2_100),
        ("block_device", ("working", None), 10, 10 * host.disks, 3_400),
        ("host_pressure", ("working", None), 10, 10, 1_200),
        ("clock", ("working", None), 1, 0, 20),
        ("storage", ("working", None), 1, 0, 4_000),
        *gpus,
        *(taps if host.taps else ()),
    )
    for name, (state, reason), reads, rows, cpu_us in sources:
        yield {
            "wall_us": at_us,
            "mono_us": at_us,
            "source": name,
            "state": state,
            "reason": reason,
            "reads": reads,
            "rows": rows,
            "rejects": 0,
            "failures": 0,
            "dropped": 0,
            "read_mean_us": cpu_us // reads,
            "read_max_us": cpu_us,
            "lag_us": 90,
            "cpu_us": cpu_us,
        }


def history(host: Host, end_us: int, seconds: int) -> Rows:
    """Return all rows of so many seconds up to a moment, which is left out."""
    all_rows: Rows = facts(host, end_us - seconds * S)
    for at_us in range(end_us - seconds * S, end_us, S):
        _add(all_rows, second(host, at_us, end_us))
    return all_rows


def build(lake: Path, end_us: int, seconds: int = 900, host: Host | None = None) -> Path:
    """Make a lake that tells the story up to a moment, and return its path."""
    create_lake(lake, HOST)
    rows: Mapping[str, Sequence[Mapping[str, object]]] = history(host or Host(), end_us, seconds)
    seal_directly(lake, rows, sync=False)
    return lake


def follow(lake: Path, host: Host, end_us: int) -> None:
    """Keep feeding a lake in real time, the incident going on, until killed."""
    writer = Writer.open(lake, "collect", clock=SystemClock(), options=WriterOptions(sync=False))
    at_us = end_us
    while True:
        for table, rows in second(host, at_us, at_us + 60 * S).items():
            writer.append(table, rows)
        at_us += S
        time.sleep(max(0.0, (at_us - SystemClock().now().wall_us) / S))


def main() -> None:
    """Build a lake and, if asked, keep it alive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lake", type=Path)
    parser.add_argument("--follow", action="store_true", help="feed it in real time until killed")
    parser.add_argument("--no-engine", action="store_true")
    parser.add_argument("--nasty", action="store_true", help="names try to be markup")
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--taps", action="store_true", help="engines tell of steps and tokens")
    parser.add_argument("--seconds", type=int, default=900)
    arguments = parser.parse_args()
    host = Host(gpus=arguments.gpus, taps=arguments.taps)
    if arguments.no_engine:
        host = replace(host, engines=())
    if arguments.nasty:
        named = Engine(3, NASTY, 15, 8, suffers=False)
        host = replace(host, engines=(*host.engines, named), gpu_model=NASTY)
    end_us = SystemClock().now().wall_us // S * S
    build(arguments.lake, end_us, arguments.seconds, host)
    print("built", flush=True)  # noqa: T201 - what reads it waits for this word
    if arguments.follow:
        follow(arguments.lake, host, end_us)


if __name__ == "__main__":
    main()
