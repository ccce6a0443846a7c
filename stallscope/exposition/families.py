"""Every metric family at /metrics: those of single columns out of the schema, and the derived ones.

docs/metrics.md is generated from here. Names are frozen: a rename bumps the schema version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
# The index is what nvidia-smi shows and may change at boot; the UUID stays.
_GPU = (Label("gpu", "device", "gpu_index"), Label("uuid", "device", "name"))
ENTITY_LABELS: Mapping[str, tuple[Label, ...]] = {
    "block_device": (Label("device", "device", "name"),),
    "host_pressure": (Label("scope", "scope"),),
    "engine_metrics": _ENGINE,
    "engine_histogram": _ENGINE,
    # The process id would be a label without bounds: processes of one engine share a series.
    "engine_process": (*_ENGINE, Label("thread", "thread")),
    "gpu_link": _GPU,
    "pcie_uplink": (Label("bridge", "device", "name"),),
    "gpu_state": _GPU,
    "source_health": (Label("source", "source"),),
}
"""Labels that name the entity a row is about, per table."""

_METHOD = Label("source", "method")
ROW_LABELS: Mapping[tuple[str, str], Label] = {
    **{
        ("gpu_link", f"{direction}_{quantity}"): label
        for direction in ("rx", "tx")
        for quantity, label in (
            ("bytes", _METHOD),
            ("window_mean_bytes_per_second", _METHOD),
            ("saturation_ratio", Label("kind", f"{direction}_ceiling_kind")),
            ("ceiling_bytes_per_second", Label("kind", f"{direction}_ceiling_kind")),
        )
    },
    ("gpu_link", "window_us"): _METHOD,
    ("gpu_link", "coverage_ratio"): _METHOD,
}
"""Labels that say how a value was come by, per table and column."""

_HELP: Mapping[str, str] = {
    "stallscope_nvme_latency_mean_seconds": "Mean time from queueing to completion of the I/Os "
    "completed in the last poll's window; absent when none completed.",
    "stallscope_pressure_ratio": "Share of the last poll's window in which tasks stalled on a "
    "resource (growth of the kernel's total, not its averages).",
    "stallscope_engine_requests": "Requests in the engine by state.",
    "stallscope_pcie_bytes_total": "Bytes over the GPU's host link since the collector started; "
    "rx is to the GPU (H2D), tx from it (D2H). Absent where no true counter exists.",
    "stallscope_pcie_throughput_bytes_per_second": "Mean rate on the GPU's host link over the "
    "last window.",
    "stallscope_pcie_link_ceiling_bytes_per_second": "What the GPU's host link can achieve; the "
    "label kind says how that is known.",
    "stallscope_pcie_saturation_ratio": "Rate on the GPU's host link over its achievable ceiling, "
    "at most 1.",
    "stallscope_pcie_raw_ratio": "Rate on the GPU's host link over its theoretical rate.",
    "stallscope_pcie_uplink_saturation_ratio": "Summed rate of the GPUs below a shared bridge "
    "over what the bridge's uplink can achieve, at most 1.",
    "stallscope_pcie_window_seconds": "Length of the window that the rates cover.",
    "stallscope_pcie_link_downtrained": "1 while the link is slower or narrower than possible "
    "under load; absent while it is idle.",
    "stallscope_pcie_replays_total": "PCIe replays since the collector started.",
    "stallscope_gpu_memory_bytes": "Memory of the GPU by state.",
    "stallscope_gpu_call_seconds": "Time in the driver's calls for one GPU and poll.",
}
"""Help of metrics that several columns feed, or whose column speaks of rows and NULL."""


@dataclass(frozen=True, slots=True)
class Feed:
    """One column that feeds a family.

    Attributes:
        table: Its table, whose latest rows are shown.
        column: The column.
        metric: How it is shown.
    """

    table: Table
    column: Column
    metric: Metric

    @property
    def row_label(self) -> Label | None:
        """The label that says how the value was come by, if there is one."""
        return ROW_LABELS.get((self.table.name, self.column.name))

    @property
    def labels(self) -> tuple[Label, ...]:
        """Labels whose values come from the row."""
        own = self.row_label
        return (*ENTITY_LABELS[self.table.name], *((own,) if own else ()))

    @property
    def adds_up(self) -> bool:
        """Whether the column holds growth per window, of which a counter is the sum."""
        return self.metric.kind == "counter" and not self.column.name.endswith("_total")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family.

    Attributes:
        name: As a sample is spelled; a counter ends in ``_total``.
        kind: ``gauge``, ``counter``, ``histogram`` or ``info``.
        meaning: HELP text.
        labels: Label names.
        feeds: Columns that feed it; none for derived families.
    """

    name: str
    kind: str
    meaning: str
    labels: tuple[str, ...]
    feeds: tuple[Feed, ...] = ()


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
LINK_STATE = Family(
    "stallscope_pcie_link_state",
    "gauge",
    "1 for what became of the last reading of the GPU's host link; the other states are absent.",
    ("gpu", "uuid", "state"),
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
    LINK_STATE,
    *(family for family, _ in SOURCE_COUNTERS.values()),
)


def column_families() -> tuple[Family, ...]:
    """Return the families that columns of the schema feed, in the schema's order."""
    fed: dict[str, list[Feed]] = {}
    for feed in _feeds(TABLES.values()):
        fed.setdefault(feed.metric.name, []).append(feed)
    return tuple(_family(name, feeds) for name, feeds in fed.items())


def _feeds(tables: Iterable[Table]) -> Iterable[Feed]:
    for table in tables:
        for column in table.columns if table.name in ENTITY_LABELS else ():
            if column.metric is not None:
                yield Feed(table, column, column.metric)


def _family(name: str, feeds: Sequence[Feed]) -> Family:
    first = feeds[0]
    return Family(
        name=name,
        kind=first.metric.kind,
        meaning=_HELP.get(name, first.column.meaning),
        labels=(
            *(label.name for label in first.labels),
            *(label for label, _ in first.metric.labels),
        ),
        feeds=tuple(feeds),
    )


def render_reference() -> str:
    """Return the table of all metrics as Markdown, for docs/metrics.md."""
    lines = ["| name | type | labels | meaning |", "|---|---|---|---|"]
    for family in sorted((*DERIVED, *column_families()), key=lambda family: family.name):
        labels = ", ".join(family.labels)
        lines.append(f"| {family.name} | {family.kind} | {labels} | {family.meaning} |")
    return "\n".join(lines) + "\n"
