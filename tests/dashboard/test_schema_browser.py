from __future__ import annotations

from pathlib import Path

import pytest

from analytics.catalog import library_statements
from dashboard.schema_browser import EXAMPLES, things
from stallscope.schema import TABLES
from stallscope.storage.reader import Lake


def test_every_table_and_every_public_macro_can_be_found() -> None:
    found = {thing.name: thing for thing in things()}
    assert set(TABLES) <= set(found)
    assert {"kv_hit", "engine_histogram_bucket", "latency_quantile", "itl_quantile"} <= set(found)
    assert not any(name.startswith("_") for name in found)
    assert found["latency_quantile"].meaning.startswith("latency_quantile: ")
    assert [name for name, *_ in found["engine"].columns] == [
        column.name for column in TABLES["engine"].columns
    ]


@pytest.mark.parametrize(
    ("name", "sql"),
    [
        *((example.question, example.sql) for example in EXAMPLES),
        *((thing.name, thing.try_it) for thing in things()),
    ],
    ids=lambda text: text[:40].replace("\n", " "),
)
def test_what_is_offered_runs(name: str, sql: str, golden_lake: Path) -> None:
    with Lake(golden_lake).connect(library=library_statements()) as connection:
        connection.execute(sql).fetchall()
    assert name
