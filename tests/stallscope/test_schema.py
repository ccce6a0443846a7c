from __future__ import annotations

import re

import pytest

from stallscope import schema
from stallscope.columns import ARROW, SQL, Kind, Role
from stallscope.tables.rollups import minute_table

ALL = [(table, column) for table in schema.TABLES.values() for column in table.columns]


def test_every_table_of_the_design_is_declared() -> None:
    wanted = {
        "gpu_link", "gpu_state", "block_device", "host_pressure", "engine_process",
        "engine_metrics", "engine_histogram", "engine_step", "token_gap", "request",
        "copy_event", "source_health", "clock_event", "change_event", "engine", "device",
        "request_name", "engine_config", "storage_mount", "topology", "link_ceiling",
        "probe_result", "slo", "note", "run", "run_request", "episode", "episode_cause",
        "alert_event", "itl_1s", "itl_10s", "itl_60s",
    }  # fmt: skip
    assert wanted <= schema.TABLES.keys()


def test_names_are_plain_and_at_is_left_to_duckdb() -> None:
    for table, column in ALL:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", table.name)
        assert re.fullmatch(r"[a-z][a-z0-9_]*", column.name)
        assert column.name not in {"at", "time"}


@pytest.mark.parametrize(
    ("unit", "suffix"), [("us", "_us"), ("bytes", "_bytes"), ("ratio", "_ratio")]
)
def test_units_stand_in_names(unit: str, suffix: str) -> None:
    stripped = r"(_(total|delta|min|avg|max))?$"
    for table, column in ALL:
        if column.unit != unit or column.name in {"bytes", "objective_ratio", "quantile"}:
            continue
        assert re.search(suffix + stripped, column.name), f"{table.name}.{column.name}"


def test_every_clock_is_named() -> None:
    for table, column in ALL:
        if column.name.endswith(("wall_us", "mono_us")):
            assert column.kind is Kind.I64, f"{table.name}.{column.name}"


def test_keys_times_and_rollups_name_columns() -> None:
    for table in schema.TABLES.values():
        names = {column.name for column in table.columns}
        assert len(names) == len(table.columns)
        assert {*table.key, *table.gauges, *table.sums} <= names
        assert table.time in names
        if table.gauges or table.sums:
            assert schema.TABLES[f"{table.name}_1m"] == minute_table(table)


def test_exposition_names_follow_the_convention() -> None:
    kinds: dict[str, str] = {}
    for table, column in ALL:
        metric = column.metric
        if metric is None or table.role is Role.ROLLUP:
            continue
        assert re.fullmatch(r"stallscope_[a-z0-9_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert kinds.setdefault(metric.name, metric.kind) == metric.kind
        assert (metric.scale == 1e-6) == (column.unit == "us")


def test_every_kind_has_both_spellings() -> None:
    assert set(Kind) == set(ARROW) == set(SQL)


def test_meanings_are_sentences() -> None:
    for table, column in ALL:
        assert column.meaning.endswith("."), f"{table.name}.{column.name}: {column.meaning}"
