"""Every metric family at /metrics: those of single columns out of the schema, and the derived ones.

docs/metrics.md is generated from here. Names are frozen: a rename bumps the schema version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stallscope.columns import Column, Metric, Table
from stallscope.schema import TABLES
from stallscope.units import US_PER_SECOND


@dataclass(frozen=True, slots=True)
class Label:
    """Where the value of a label comes from.

    Attributes:
        name: Label name.
        column: Column of the row; it holds the text itself, or an id when ``fact`` is set.
        fact: Column of the id's fact table that has the text, or an empty string.
    """

    name: str
    column: str
    fact: str = ""


_ENGINE = (
    Label("engine", "engine", "name"),
    Label("model", "engine", "model"),
    Label("rank", "engine", "rank"),
)
ENTITY_LABELS: Mapping[str, tuple[Label, ...]] = {
    "block_device": (Label("device", "device", "name"),),
    "host_pressure": (Label("scope", "scope"),),
    "engine_metrics": _ENGINE,
    "engine_histogram": _ENGINE,
    # The process id would be a label without bounds: processes of one engine share a series.
    "engine_process": (*_ENGINE, Label("thread", "thread")),
    "gpu_link": (Label("uuid", "device", "name"),),
    "source_health": (Label("source", "source"),),
}
"""Labels that name the entity a row is about, per table."""

ROW_LABELS: Mapping[str, Label] = {
    "stallscope_pcie_saturation_ratio": Label("kind", "ceiling_kind"),
    "stallscope_pcie_throughput_bytes_per_second": Label("source", "method"),
}
"""Labels of single metrics that say how the value was come by."""

_SHARED_HELP: Mapping[str, str] = {
    "stallscope_nvme_latency_mean_seconds": "Mean time from queueing to completion of the I/Os "
    "completed in the last poll's window; absent when none completed.",
    "stallscope_pressure_ratio": "Share of the last poll's window in which tasks stalled on a "
    "resource (growth of the kernel's total, not its averages).",
    "stallscope_engine_requests": "Requests in the engine by state.",
    "stallscope_pcie_throughput_bytes_per_second": "Mean rate on the GPU's host link.",
    "stallscope_pcie_saturation_ratio": "Rate on the GPU's host link over its achievable ceiling.",
}
"""Help of metrics that several columns feed."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family.

    Attributes:
        name: As a sample is spelled; a counter ends in ``_total``.
        kind: ``gauge``, ``counter``, ``histogram`` or ``info``.
        meaning: HELP text.
        labels: Label names.
        table: Table whose latest rows feed it; empty for derived families.
        columns: Columns that feed it.
    """

    name: str
    kind: str
    meaning: str
    labels: tuple[str, ...]
    table: str = ""
    columns: tuple[tuple[Column, Metric], ...] = ()


BUILD = Family(
    "stallscope_build_info",
    "info",
    "Version of the collector and of its schema; the value is 1.",
    ("version", "schema_version", "host"),
)
ITL = Family(
    "stallscope_itl_seconds",
    "histogram",
    "Time between two outputs of a request, counted since the collector started, in the engine's "
    "own buckets: nothing is known within a bucket.",
    ("engine", "model", "rank", "le"),
)
KV_HIT_RATIO = Family(
    "stallscope_kv_hit_ratio",
    "gauge",
    "Prompt tokens found in a KV cache tier over prompt tokens looked up there, of the last 60 s; "
    "absent when none was looked up.",
    ("engine", "model", "rank", "tier"),
)
SOURCE_UP = Family(
    "stallscope_collector_source_up", "gauge", "1 while the source delivers, else 0.", ("source",)
)
SOURCE_STATE = Family(
    "stallscope_collector_source_state",
    "gauge",
    "1 for the state that the source is in; the other states are absent.",
    ("source", "state"),
)


def _source_counter(name: str, meaning: str) -> Family:
    return Family(name, "counter", f"{meaning}, since the collector started.", ("source",))


SOURCE_COUNTERS: Mapping[str, tuple[Family, int]] = {
    "rejects": (
        _source_counter("stallscope_collector_rejects_total", "Input lines refused"),
        1,
    ),
    "failures": (_source_counter("stallscope_collector_failures_total", "Polls that failed"), 1),
    "dropped": (_source_counter("stallscope_collector_dropped_total", "Rows thrown away"), 1),
    "cpu_us": (
        _source_counter(
            "stallscope_collector_cpu_seconds_total",
            "CPU time of the source's thread; source 'collector' is the whole process",
        ),
        US_PER_SECOND,
    ),
}
"""Columns of source_health that add up to a counter, with the family and how many make one."""

DERIVED: tuple[Family, ...] = (
    BUILD,
    ITL,
    KV_HIT_RATIO,
    SOURCE_UP,
    SOURCE_STATE,
    *(family for family, _ in SOURCE_COUNTERS.values()),
)


def column_families() -> tuple[Family, ...]:
    """Return the families that columns of the schema feed, in the schema's order."""
    fed: dict[str, tuple[Table, list[tuple[Column, Metric]]]] = {}
    for table, column, metric in _metric_columns(TABLES.values()):
        fed.setdefault(metric.name, (table, []))[1].append((column, metric))
    return tuple(_family(name, table, columns) for name, (table, columns) in fed.items())


def _metric_columns(tables: Iterable[Table]) -> Iterable[tuple[Table, Column, Metric]]:
    for table in tables:
        if table.name not in ENTITY_LABELS:
            continue
        for column in table.columns:
            if column.metric is not None:
                yield table, column, column.metric


def _family(name: str, table: Table, columns: list[tuple[Column, Metric]]) -> Family:
    column, metric = columns[0]
    row_label = ROW_LABELS.get(name)
    return Family(
        name=name,
        kind=metric.kind,
        meaning=_SHARED_HELP.get(name, column.meaning),
        labels=(
            *(label.name for label in ENTITY_LABELS[table.name]),
            *((row_label.name,) if row_label else ()),
            *(label for label, _ in metric.labels),
        ),
        table=table.name,
        columns=tuple(columns),
    )


def render_reference() -> str:
    """Return the table of all metrics as Markdown, for docs/metrics.md."""
    lines = ["| name | type | labels | meaning |", "|---|---|---|---|"]
    for family in sorted((*DERIVED, *column_families()), key=lambda family: family.name):
        labels = ", ".join(family.labels)
        lines.append(f"| {family.name} | {family.kind} | {labels} | {family.meaning} |")
    return "\n".join(lines) + "\n"
