"""Pages made from code say what the code says."""

from __future__ import annotations

import tomllib

import pytest

from stallscope.columns import Table
from stallscope.schema import TABLES
from tests.project.checkout import REPO
from tools import docs


def test_every_generated_page_is_up_to_date() -> None:
    assert docs.find_stale() == [], "run: make docs"


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_the_schema_page_has_every_column(table: Table) -> None:
    page = (REPO / "docs/schema.md").read_text(encoding="utf-8")
    section = page.split(f"\n### {table.name}\n", 1)[1].split("\n### ", 1)[0]
    assert table.meaning in section
    assert [c.name for c in table.columns if f"| `{c.name}` | {c.kind} |" not in section] == []


def test_the_example_settings_are_toml() -> None:
    text = (REPO / "docs/stallscope.toml").read_text(encoding="utf-8")
    assert "lake" in tomllib.loads(text)
