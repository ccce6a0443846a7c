"""How fast the Now page's questions are answered over 24 h of eight GPUs, and the rival's."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np

from analytics.catalog import library_statements
from lab.bench.figure import Figure
from lab.bench.machine import time_ms
from lab.bench.rival import Prometheus, why_no_rival
from lab.bench.sizes import backfill
from lab.crash.clock import real_now_us
from lab.quantity import rank
from lab.synthetic.day import ENGINES, make_day
from stallscope.storage.reader import Lake
from stallscope.units import US_PER_SECOND

_HOUR_US = 3_600 * US_PER_SECOND
_DAY_US = 24 * _HOUR_US
_SCRAPE_S = 15
_BOUNDS = (
    ".01", ".025", ".05", ".075", ".1", ".15", ".2", ".3", ".4", ".5", ".75", "1", "2.5", "5",
    "7.5", "10", "20", "40", "80", "+Inf",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """One query.

    Attributes:
        name: For people.
        tables: What it reads.
        back_us: How far back it looks.
        sql: With ``{since}`` and ``{until}``.
        module: SQL module it uses, if any.
        bar_ms: Its bar, if it has one.
        promql: The rival's spelling, if it can answer.
    """

    name: str
    tables: tuple[str, ...]
    back_us: int
    sql: str
    module: str = ""
    bar_ms: float | None = None
    promql: str = ""


def _p99(source: str) -> str:
    arguments = f"[0.99], {{since}}, {{until}}, source := '{source}'"
    return f"SELECT engine, value_us FROM itl_quantile({arguments})"


def _rival_p99(span: str) -> str:
    return f"histogram_quantile(0.99, sum by (engine, le) (increase(lab_itl_bucket[{span}])))"


_WINDOWS = "{since}, {until}, step_us := 180000000"
QUESTIONS = (
    Question("p99 ITL per engine, 1 h", ("itl_10s",), _HOUR_US, _p99("itl_10s"),
             "itl_quantile", 10, _rival_p99("1h")),
    Question("p99 ITL per engine, 24 h", ("itl_60s",), _DAY_US, _p99("itl_60s"),
             "itl_quantile", 30, _rival_p99("24h")),
    Question(
        "gauge max per GPU, 24 h", ("gpu_link_1m",), _DAY_US,
        "SELECT device, max(rx_saturation_ratio_max) FROM gpu_link_1m "
        "WHERE wall_us >= {since} GROUP BY device",
        "", 5, "max_over_time(lab_rx_saturation[24h])",
    ),
    Question(
        "Now: ITL p50 p99 p99.9 of an engine, 480 windows of 24 h", ("itl_60s",), _DAY_US,
        f"FROM itl_quantile([0.5, 0.99, 0.999], {_WINDOWS}, source := 'itl_60s', only_engine := 1)",
        "itl_quantile",
    ),
    Question(
        "Now: TTFT of an engine, 480 windows of 24 h", ("engine_histogram_1m",), _DAY_US,
        f"FROM histogram_quantile(['ttft_us'], [0.5, 0.99], {_WINDOWS}, "
        "source := 'engine_histogram_1m', only_engine := 1)",
        "histogram_quantile",
    ),
    Question(
        "Now: KV hit rate by tier, 480 windows of 24 h", ("engine_metrics", "engine_metrics_1m"),
        _DAY_US,
        f"FROM kv_hits({_WINDOWS}, source := 'engine_metrics_1m', only_engine := 1)",
        "kv_hits",
    ),
    Question(
        "Now: latency and queue of 10 drives, 480 windows of 24 h", ("block_device_1m",), _DAY_US,
        "SELECT wall_us - wall_us % 180000000 AS w, device, max(read_await_mean_us_max), "
        "min(read_await_mean_us_min), max(queue_mean_max) FROM block_device_1m "
        "WHERE wall_us >= {since} GROUP BY ALL",
    ),
)  # fmt: skip


def measure_queries(repeats: int) -> list[Figure]:
    """Return milliseconds per question, each on a connection of its own, and of the connecting."""
    until_us = real_now_us() // _HOUR_US * _HOUR_US
    with tempfile.TemporaryDirectory(prefix="stallscope-bench-") as name:
        make_day(Path(name) / "lake", until_us)
        lake = Lake(Path(name) / "lake")
        rivals = _ask_rival(Path(name), until_us, repeats)
        return [
            _open_figure(lake, repeats),
            *(
                _figure(lake, question, until_us, repeats, rivals.get(question.name, ""))
                for question in QUESTIONS
            ),
        ]


def _open_figure(lake: Lake, repeats: int) -> Figure:
    library = library_statements()
    opens = [time_ms(lambda: lake.connect(library=library).close()) for _ in range(repeats)]
    name = f"open a connection, all views over {len(lake.entries())} segments"
    return Figure("query, 24 h of 8 GPUs", name, "ms", opens)


def _figure(lake: Lake, question: Question, until_us: int, repeats: int, rival: str) -> Figure:
    values = [_ask(lake, question, until_us) for _ in range(repeats)]
    return Figure(
        "query, 24 h of 8 GPUs", question.name, "ms", values, question.bar_ms, rival=rival
    )


def _ask(lake: Lake, question: Question, until_us: int) -> float:
    """Return how many milliseconds a question takes on a fresh connection."""
    since_us = until_us - question.back_us
    sql = question.sql.format(since=since_us, until=until_us)
    library = library_statements(question.module) if question.module else ()
    with lake.connect(
        tables=question.tables, since_us=since_us, until_us=until_us, library=library
    ) as connection:
        answers: list[object] = []
        took_ms = time_ms(lambda: answers.extend(connection.execute(sql).fetchall()))
    if not answers:
        msg = f"no answer: {question.name}"
        raise ValueError(msg)
    return took_ms


def _ask_rival(folder: Path, until_us: int, repeats: int) -> dict[str, str]:
    """Return the rival's milliseconds by question, over the same 24 h at its usual 15 s."""
    asked = [question for question in QUESTIONS if question.promql]
    if why_no_rival():
        return {question.name: why_no_rival() for question in asked}
    text = folder / "samples.txt"
    text.write_text(_rival_samples(until_us), encoding="ascii")
    backfill(text, folder / "tsdb")
    when_s = until_us / US_PER_SECOND - 1
    with Prometheus(folder) as prometheus:
        return {
            question.name: _middle(
                [prometheus.query_ms(question.promql, when_s) for _ in range(repeats)]
            )
            for question in asked
        }


def _middle(values: Sequence[float]) -> str:
    return f"{rank(values, 0.5):.1f} ms (Prometheus, {_SCRAPE_S} s scrapes)"


def _rival_samples(until_us: int) -> str:
    """Return 24 h of the gauge and of the ITL histogram as OpenMetrics text with times."""
    dice = np.random.default_rng(5)
    stamps = range(until_us // US_PER_SECOND - 86_400, until_us // US_PER_SECOND, _SCRAPE_S)
    lines = ["# TYPE lab_rx_saturation gauge"]
    for gpu in range(ENGINES):
        values = dice.random(len(stamps)).tolist()
        lines += [
            f'lab_rx_saturation{{gpu="{gpu}"}} {value:.6g} {stamp}'
            for value, stamp in zip(values, stamps, strict=True)
        ]
    lines.append("# TYPE lab_itl histogram")
    for engine in range(1, ENGINES + 1):
        growth = dice.poisson(2_000, (len(stamps), len(_BOUNDS)))
        totals = np.cumsum(growth, axis=0)
        cumulative = [list(accumulate(row)) for row in totals.tolist()]
        for place, bound in enumerate(_BOUNDS):
            label = f'{{engine="{engine}",le="{bound}"}}'
            lines += [
                f"lab_itl_bucket{label} {row[place]} {stamp}"
                for row, stamp in zip(cumulative, stamps, strict=True)
            ]
    return "\n".join([*lines, "# EOF\n"])
