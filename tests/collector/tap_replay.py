"""Recordings of what vLLM handed to its taps, sent again as datagrams."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.synthetic.tap_datagrams import MISSING, TapSender
from tests.collector.stand_ins import SECOND
from tests.collector.tap_stand_ins import Rows, TapHost

_CODES = {
    "engine": "B",
    "main": "B",
    "wall_us": "q",
    "engine_mono_us": "q",
    "step_us": "I",
    "itl_us": "I",
    "outputs": "I",
    "generation_tokens": "I",
    "prefill_tokens": "I",
    "prefill_requests": "I",
    "running": "I",
    "waiting": "I",
    "preempted": "I",
    "kv_usage_ratio": "f",
    "prefix_queries": "I",
    "prefix_hits": "I",
    "finished": "I",
}
_FINISHES = {0: "stop", 1: "length", 2: "abort"}
_TRANSIT_US = 700
_AT_ONCE = 32

Record = Mapping[str, Any]


def read_records(path: Path) -> list[Record]:
    """Return the steps of a recording; lines about the plugin itself are left out."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [record for record in records if "mono" in record]


def read_exchanges(path: Path) -> list[Record]:
    """Return the requests of a recording of the middleware, each with the times of its chunks."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def replay_steps(host: TapHost, records: Sequence[Record], sender: TapSender) -> Rows:
    """Send steps as they happened and return all rows that came of them."""
    gathered: dict[str, list[Any]] = {}
    last_us: dict[int, int] = {}
    for begin in range(0, len(records), _AT_ONCE):
        part = records[begin : begin + _AT_ONCE]
        _go_to(host, micros(part[-1]["mono"]) + _TRANSIT_US, micros(part[-1]["t"]) + _TRANSIT_US)
        now = host.at()
        finished = [one for record in part for one in _finished(record)]
        if finished:
            host.deliver(sender.requests(finished, now.wall_us, now.mono_us))
        rows = [row for record in part for row in _step_rows(record, last_us)]
        columns = {name: (code, [row[name] for row in rows]) for name, code in _CODES.items()}
        ttft = [one for record in part for one in _first_tokens(record)]
        host.deliver(sender.steps(columns, now.wall_us, now.mono_us, ttft))
        _gather(gathered, host.poll(host.steps))
    return gathered


def replay_chunks(host: TapHost, exchanges: Sequence[Record], sender: TapSender) -> Rows:
    """Send chunks in the order they were stamped and return all rows that came of them."""
    gathered: dict[str, list[Any]] = {}
    rows = sorted(
        (row for number, one in enumerate(exchanges) for row in _chunk_rows(number, one)),
        key=lambda row: row[2],
    )
    _go_to(host, rows[-1][2] + _TRANSIT_US)
    now = host.at()
    began = [_asgi(number, one) for number, one in enumerate(exchanges)]
    host.deliver(sender.requests(began, now.wall_us, now.mono_us))
    for begin in range(0, len(rows), 1_000):
        request, chunk, mono, itl, tokens = zip(*rows[begin : begin + 1_000], strict=True)
        columns = {
            "request": ("I", request),
            "chunk_index": ("I", chunk),
            "mono_us": ("q", mono),
            "itl_us": ("I", itl),
            "tokens": ("B", tokens),
            "body_bytes": ("I", [210] * len(request)),
        }
        host.deliver(sender.gaps(columns, now.wall_us, now.mono_us))
        _gather(gathered, host.poll(host.gaps))
    ended = [_asgi(number, one, ended=True) for number, one in enumerate(exchanges)]
    host.deliver(sender.requests(ended, now.wall_us, now.mono_us))
    _gather(gathered, host.poll(host.gaps))
    return gathered


def gaps_of(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the gap of every output in rows of engine_step, in order of size."""
    counted: Counter[int] = Counter()
    for row in rows:
        if row["itl_us"] is not None:
            counted[row["itl_us"]] += row["outputs"]
    return sorted(counted.elements())


def quantile(values: Sequence[int], share: float) -> int:
    """Return the value below which so many lie, of sorted values, the higher one between two."""
    return values[min(len(values) - 1, math.floor(share * len(values)))]


def micros(seconds: float) -> int:
    return round(seconds * SECOND)


def _gather(gathered: dict[str, list[Any]], rows: Rows) -> None:
    for table, more in rows.items():
        gathered.setdefault(table, []).extend(more)


def _go_to(host: TapHost, mono_us: int, wall_us: int | None = None) -> None:
    host.clock.mono_us = mono_us
    if wall_us is not None:
        host.clock.wall_offset_us = wall_us - mono_us
    host.refresh()


def _step_rows(record: Record, last_us: dict[int, int]) -> Iterator[dict[str, float]]:
    step = record.get("iter") or {"ts": record["t"], "itl": [], "ttft": [], "finished": []}
    engine = int(record["engine"])
    mono_us = micros(record["mono"]) - micros(record["t"] - step["ts"])
    since = last_us.get(engine)
    last_us[engine] = mono_us
    counted = Counter(micros(gap) for gap in step["itl"])
    gaps = counted.most_common() or [(int(MISSING["I"]), 0)]
    main = {
        **_counters(record, step),
        # two servers wrote into one recording: their lines are not in order of time
        "step_us": MISSING["I"] if since is None or mono_us < since else mono_us - since,
    }
    for place, (gap, outputs) in enumerate(gaps):
        counters = main if place == 0 else {name: MISSING[_CODES[name]] for name in main}
        yield {
            **counters,
            "engine": engine,
            "main": int(place == 0),
            "wall_us": micros(step["ts"]),
            "engine_mono_us": mono_us,
            "itl_us": gap,
            "outputs": outputs,
        }


def _counters(record: Record, step: Record) -> dict[str, float]:
    scheduler = record.get("sched") or {}
    told = {
        "generation_tokens": step.get("gen", 0),
        "prefill_tokens": step.get("prompt"),
        "prefill_requests": len(step["ttft"]),
        "running": scheduler.get("running"),
        "waiting": scheduler.get("waiting"),
        "preempted": step.get("preempted"),
        "kv_usage_ratio": scheduler.get("kv_usage"),
        "prefix_queries": scheduler.get("pc_queries"),
        "prefix_hits": scheduler.get("pc_hits"),
        "finished": len(step["finished"]),
    }
    return {name: MISSING[_CODES[name]] if value is None else value for name, value in told.items()}


def _first_tokens(record: Record) -> list[tuple[int, int, int]]:
    step = record.get("iter")
    if not step:
        return []
    return [(record["engine"], micros(step["ts"]), micros(ttft)) for ttft in step["ttft"]]


def _finished(record: Record) -> Iterator[dict[str, object]]:
    for one in (record.get("iter") or {}).get("finished", ()):
        yield {
            "source": "stats",
            "number": None,
            "id": one["request_id"],
            "engine": record["engine"],
            "finish": _FINISHES[one["finish_reason"]],
            "arrival_wall_us": micros(record["iter"]["ts"] - one["e2e_latency"]),
            "end_mono_us": micros(record["mono"]),
            "queue_us": micros(one["queued_time"]),
            "prefill_us": micros(one["prefill_time"]),
            "decode_us": micros(one["decode_time"]),
            "inference_us": micros(one["inference_time"]),
            "e2e_us": micros(one["e2e_latency"]),
            "prompt_tokens": one["num_prompt_tokens"],
            "output_tokens": one["num_generation_tokens"],
            "cached_tokens": one["num_cached_tokens"],
            "preemptions": one["num_preemptions"],
        }


def _chunk_rows(number: int, exchange: Record) -> Iterator[tuple[int, int, int, int, int]]:
    before: int | None = None
    for index, stamp in enumerate(exchange["chunks"]):
        mono_us = micros(stamp)
        gap = MISSING["I"] if before is None else mono_us - before
        yield number, index, mono_us, int(gap), 1
        before = mono_us


def _asgi(number: int, exchange: Record, *, ended: bool = False) -> dict[str, object]:
    begin_us, end_us = micros(exchange["mono0"]), micros(exchange["chunks"][-1])
    said: dict[str, object] = {
        "source": "asgi",
        "number": number,
        "id": f"cmpl-{exchange['rid']}",
        "route": exchange["path"],
        "status": 200,
        "finish": None,
        "arrival_mono_us": begin_us,
    }
    if ended:
        said |= {"finish": "length", "end_mono_us": end_us, "e2e_us": end_us - begin_us}
        said |= {"chunks": len(exchange["chunks"])}
        said |= {"ttft_us": micros(exchange["chunks"][0]) - begin_us}
    return said
