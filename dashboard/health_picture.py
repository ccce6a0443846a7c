"""Everything the Data health page shows, as plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard import formats
from dashboard.answers import STALE_AFTER_US, Run
from dashboard.data import Question, connected, newest_us, oldest_us, open_lake
from dashboard.engines import facts_version, names
from dashboard.sources import DAY_TABLES, DAY_US, SourceNow, read_sources
from stallscope.storage.reader import Lake, LakeStatus
from stallscope.units import US_PER_SECOND

_WORDS = {
    "working": ("dot", "ok", "working"),
    "partial": ("dot", "warn", "partly working"),
    "late": ("dot", "warn", "late"),
    "not_found": ("dotted", "", "not found yet"),
    "not_applicable": ("ring", "", "not applicable"),
    "unsupported": ("barred", "", "unsupported"),
    "disabled": ("ring", "", "switched off"),
    "restricted": ("triangle", "warn", "no permission"),
    "gone": ("cross", "warn", "gone"),
    "failed": ("cross", "bad", "failed"),
    "hung": ("cross", "bad", "hung"),
}
_ENGINE = "engine_metrics"
_WHOLE = "collector"
_PORT_SAID = re.compile(r"(\d+): ([^;)]+)")
"""What each port said, in the reason of source engine_metrics."""
_BY_THEMSELVES = (
    "Nothing is broken: the sources of an engine start by themselves as soon as one is found, no "
    "restart needed. "
)


@dataclass(frozen=True, slots=True)
class Health:
    """What the Data health page shows.

    Attributes:
        newest_us: Time of the newest measurement, None in an empty lake.
        data: Data of the health component.
        summary: Sources in a few words, for the chip.
    """

    newest_us: int | None
    data: dict[str, Any]
    summary: str


@st.cache_data(ttl=30, max_entries=8, show_spinner=False)
def health_picture(
    lake_path: Path, version: str, ports: tuple[int, ...], endpoints: tuple[str, ...], now_us: int
) -> Health:
    """Return what the Data health page shows.

    Args:
        lake_path: Folder of the lake.
        version: Version of the lake: part of the cache key, nothing else.
        ports: Loopback ports that are probed for engines; empty when probing is off.
        endpoints: Engines that are configured; when there are any, nothing is probed.
        now_us: The present, whole seconds.

    Raises:
        LakeError: The lake cannot be read.
    """
    del version
    lake = open_lake(lake_path)
    newest = newest_us(lake)
    if newest is None:
        return Health(None, {}, "")
    sources = _sources(lake, now_us)
    engines, disks = names(lake_path, facts_version(lake))
    found = next((source for source in sources if source.name == _ENGINE), None)
    has_engine = found is not None and found.good
    data = {
        **_headline(sources, has_engine=has_engine, stale=now_us - newest > STALE_AFTER_US),
        "answers": _answers(sources, lake, now_us, has_engine=has_engine),
        "search": None if has_engine else _search(found, ports, endpoints, ever=bool(engines)),
        "sources": [_row(source, now_us) for source in sources],
        "cost": _cost(sources),
        "lake": _lake_lines(lake.status(), len(disks), now_us),
    }
    good = sum(source.good for source in sources)
    return Health(newest, data, f"{good} of {len(sources)} sources")


def _sources(lake: Lake, now_us: int) -> list[SourceNow]:
    """Return the sources of the last day."""
    with connected(lake, Question(DAY_TABLES, now_us - DAY_US, now_us)) as connection:
        return read_sources(connection, now_us)


def _headline(sources: Sequence[SourceNow], *, has_engine: bool, stale: bool) -> dict[str, Any]:
    """Return the sentence on top and what it means."""
    broken = [source for source in sources if _WORDS.get(source.state, ("", "bad", ""))[1] == "bad"]
    partly = [s for s in sources if s.state in {"partial", "restricted", "late", "gone"}]
    if stale:
        title = "No collector is sending."
        text: list[Run] = [
            "What follows is the state of its last moment. Start it again with ",
            {"code": "stallscope up"},
            ".",
        ]
    elif broken:
        title = f"{formats.joined([source.name for source in broken])} failed."
        text = ["The other sources go on. The exact answer stands in the table."]
    elif not has_engine:
        title = "Collecting, but no engine found on this host."
        text = [_BY_THEMSELVES, {"b": "Until then there is no latency to judge."}]
    elif partly:
        title = f"Collecting; {formats.count(len(partly), 'source')} could tell more."
        text = [f"{formats.joined([source.name for source in partly])}: see below what is missing."]
    else:
        title = "Every source that can work here works."
        text = ["Missing figures are missing for the reasons below."]
    return {"title": title, "text": text}


def _answers(
    sources: Sequence[SourceNow], lake: Lake, now_us: int, *, has_engine: bool
) -> list[dict[str, str]]:
    """Return what this host can answer now, question by question."""
    good = {source.name for source in sources if source.good}
    host = good & {"block_device", "host_pressure", "engine_process"}
    oldest = oldest_us(lake)
    span = "nothing" if oldest is None else formats.duration(now_us - oldest)
    tail = (
        ("Yes", "Latency per engine, from its own buckets.")
        if has_engine
        else ("Not yet", "Needs an engine.")
    )
    why = (
        ("Partly", "Disks, pressure and KV cache stand on the same time axis as the tail.")
        if (has_engine and host)
        else ("Not yet", "Needs an engine and signals of the host.")
    )
    return [
        {"word": tail[0], "question": "Is the tail broken, for whom?", "text": tail[1]},
        {"word": why[0], "question": "Why?", "text": why[1]},
        {
            "word": "Partly" if good else "Not yet",
            "question": "Shall somebody be woken?",
            "text": "No rules here yet. Prometheus can judge what :9871/metrics shows.",
        },
        {
            "word": "Yes" if oldest is not None else "Not yet",
            "question": "What did we know then?",
            "text": f"{span} in the lake.",
            "link": "Open SQL",
            "page": "sql",
        },
    ]


def _search(
    source: SourceNow | None, ports: tuple[int, ...], endpoints: tuple[str, ...], *, ever: bool
) -> dict[str, Any]:
    """Return where an engine was looked for, with the exact answer."""
    reason = "not asked yet" if source is None else source.reason or source.state
    said = dict(_PORT_SAID.findall(reason))
    if endpoints:
        places = [[endpoint, "configured"] for endpoint in endpoints]
    else:
        places = [
            [f"127.0.0.1:{port}/metrics", said.get(str(port), "no word yet")] for port in ports
        ]
    return {
        "title": "Find the engine",
        "state": "gone" if ever else "not found yet",
        "places": places,
        "answer": "" if said and not endpoints else reason,
        "hint": "Engine on another port or in a container? Name it:",
        "command": "stallscope up --engine rag=http://127.0.0.1:9000",
    }


def _row(source: SourceNow, now_us: int) -> dict[str, Any]:
    """Return a line of the table of sources."""
    shape, tone, word = _WORDS.get(source.state, ("cross", "bad", source.state))
    troubles = [
        f"{formats.number(value)} {what} in the last minute"
        for value, what in (
            (source.rejects, "lines refused"),
            (source.failures, "polls failed"),
            (source.dropped, "rows dropped"),
        )
        if value
    ]
    counted = f"{formats.joined(troubles)}." if troubles else ""
    exactly = " ".join(filter(None, [source.reason, counted]))
    seen = now_us - source.last_seen_us
    return {
        "name": source.name,
        "shape": shape,
        "tone": tone,
        "word": word,
        "exactly": exactly or "All it looks for is there.",
        "last": _last(source, now_us),
        "pace": "stopped" if seen > 10 * STALE_AFTER_US else _pace(source.pace_hz),
        "cost": "not measured"
        if source.cpu_ratio is None
        else f"{formats.number(source.cpu_ratio * 1_000)}{formats.NBSP}ms/s",
        "strip": list(source.strip),
        "quiet": not source.good,
    }


def _last(source: SourceNow, now_us: int) -> str:
    """Return how old the newest row is; sources that write none of their own are just alive."""
    if source.last_rows_us is not None:
        return formats.duration(max(0, now_us - source.last_rows_us))
    if source.good:
        return f"alive {formats.duration(max(0, now_us - source.last_seen_us))}"
    return "none today"


def _pace(hz: float) -> str:
    """Return how often a source is read."""
    if hz <= 0:
        return "by itself"
    if hz < 0.8:  # noqa: PLR2004 - from about once a second it reads better as a frequency
        return f"every {formats.duration(US_PER_SECOND / hz)}"
    return f"{formats.number(float(f'{hz:.2g}'))}{formats.NBSP}Hz"


def _cost(sources: Sequence[SourceNow]) -> str:
    """Return what collecting costs: the whole process where it says so, else the sum of sources."""
    sources = [source for source in sources if source.name == _WHOLE] or sources
    known = [source.cpu_ratio for source in sources if source.cpu_ratio is not None]
    return f"own cost {formats.percent(round(sum(known), 4))} of a core" if known else ""


def _lake_lines(status: LakeStatus, disks: int, now_us: int) -> list[list[str]]:
    """Return the state of the lake as (name, value)."""
    since = "" if status.oldest_us is None else formats.clock(status.oldest_us, now_us)
    segments = formats.count(status.segments, "segment")
    lines = [
        ["Size", f"{formats.disk_bytes(status.bytes)} in {segments}"],
        ["Rows", f"{formats.number(status.rows)}, the oldest of {since}"],
        ["Disks known", formats.number(disks)],
    ]
    if status.quarantine:
        lines.append(["Set aside", formats.count(len(status.quarantine), "damaged file")])
    lines += [["Passed over", reason] for reason in status.damaged[:3]]
    return lines


def chips(health: Health) -> list[Mapping[str, str]]:
    """Return the chips beside the freshness."""
    return [{"text": health.summary, "tip": "Sources that deliver"}] if health.summary else []
