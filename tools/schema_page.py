"""docs/schema.md: every table as stallscope/schema.py declares it."""

from __future__ import annotations

from collections.abc import Iterator

from stallscope.columns import Cadence, Column, Retention, Role, Table
from stallscope.schema import CAUSES, SCHEMA_VERSION, TABLES

_HEAD = """\
# Schema

Generated from `stallscope/schema.py` by `make docs`; do not edit. Schema version {version}.

Every table is a view of the same name in `<lake>/catalog.duckdb`, and in what `stallscope sql` and
the SQL page see. Where a table has a time column, its view adds `time`, the same moment as a UTC
`TIMESTAMP`.

- Times and durations are integer microseconds (`_us`). `wall_` is UTC since 1970 and may step;
  `mono_` counts since boot, never steps, and compares only within one boot.
- Sizes are bytes (`_bytes`), shares run from 0 to 1 (`_ratio`).
- Directions: rx = to the GPU = H2D = load; tx = from the GPU = D2H = store.
- Missing is NULL with a reason, in the row or in `source_health`; never 0, -1 or the last value.
- Causes, a closed list: {causes}.
"""

_TITLES = {
    Role.SIGNAL: "Signals",
    Role.FACT: "Names and facts",
    Role.RESULT: "Results",
    Role.ROLLUP: "Rollups",
}
_CADENCES = {Cadence.LIVE: "every second", Cadence.SLOW: "every ten seconds"}
_RETENTIONS = {
    Retention.RAW: "as raw rows (24 h and 10 GB unless set)",
    Retention.ROLLUP: "as rollups (30 days unless set)",
    Retention.KEEP: "for good",
}


def render() -> str:
    """Return the page as Markdown."""
    causes = " ".join(f"`{cause}`" for cause in CAUSES)
    parts = [_HEAD.format(version=SCHEMA_VERSION, causes=causes), "\n".join(_contents())]
    for role, title in _TITLES.items():
        parts.append(f"\n## {title}\n")
        parts += [_section(table) for table in _tables(role)]
    return "\n".join(parts)


def _tables(role: Role) -> Iterator[Table]:
    return (table for table in TABLES.values() if table.role is role)


def _contents() -> Iterator[str]:
    for role, title in _TITLES.items():
        links = ", ".join(f"[{table.name}](#{table.name})" for table in _tables(role))
        yield f"- {title}: {links}"


def _section(table: Table) -> str:
    rows = "\n".join(_row(column) for column in table.columns)
    return (
        f"### {table.name}\n\n{table.meaning}\n\n{_life(table)}\n\n"
        f"| column | type | unit | NULL | meaning |\n|---|---|---|---|---|\n{rows}\n"
    )


def _life(table: Table) -> str:
    """Return one line on what names a row, how soon rows appear and how long they stay."""
    key = ", ".join(f"`{name}`" for name in table.key) or "none, one row per event"
    line = f"Key: {key}. Sealed {_CADENCES[table.cadence]}, kept {_RETENTIONS[table.retention]}."
    rollup = f"{table.name}_1m"
    return f"{line} Per minute: [{rollup}](#{rollup})." if rollup in TABLES else line


def _row(column: Column) -> str:
    null = "yes" if column.nullable else ""
    cells = (f"`{column.name}`", column.kind.value, column.unit, null, _meaning(column))
    return f"| {' | '.join(cells)} |"


def _meaning(column: Column) -> str:
    """Return the column's meaning with its metric and its history."""
    notes = [column.meaning]
    if column.metric is not None:
        notes.append(f"Metric `{column.metric.name}`.")
    if column.since > 1:
        notes.append(f"Since schema version {column.since}.")
    notes += [f"`{name}` up to schema version {version}." for version, name in column.was]
    return " ".join(notes).replace("|", "\\|")
