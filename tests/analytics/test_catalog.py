from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import duckdb
import pytest

from analytics.catalog import MODULES, library_statements
from analytics.facts import newest_facts
from stallscope.errors import StallscopeError
from stallscope.schema import TABLES
from stallscope.sql.console import Limits, QueryFailedError, run_query
from stallscope.storage.direct import seal_directly
from stallscope.storage.layout import create_lake
from stallscope.storage.reader import Lake
from tests.analytics.memory_lake import empty_views, lake_of

REPO = Path(__file__).resolve().parents[2]
SQL = REPO / "analytics" / "sql"
DEFINES = re.compile(r"^CREATE OR REPLACE (MACRO|VIEW) (_?[a-z][a-z0-9_]*)", re.MULTILINE)
TRY_ALL = [
    "SELECT * FROM engine_histogram_bucket",
    "SELECT * FROM kv_hit",
    "SELECT * FROM histogram_quantile(['ttft_us'], [0.5, 0.99], 0, 10)",
    "SELECT * FROM histogram_quantile(['a'], [0.5], 0, 9, step_us := 3, merged := true)",
    "SELECT * FROM latency_quantile('ttft_us', 0.99, 0, 10, source := 'engine_histogram_1m')",
    "SELECT * FROM itl_quantile([0.5], 0, 10, source := 'itl_60s', only_engine := 3)",
    "SELECT * FROM kv_hits(0, 10, step_us := 5, source := 'engine_metrics_1m')",
    "SELECT * FROM copy_path(0, 10, step_us := 5, limit_ratio := 0.5, only_device := 1)",
    "SELECT * FROM copy_path_minutes(0, 10)",
    "SELECT * FROM uplinks(0, 10, step_us := 5)",
    "SELECT * FROM link_ceilings(only_device := 1)",
    "SELECT * FROM topology_now",
    "SELECT * FROM topology_findings_now",
    "SELECT * FROM itl_excess(0, 10, step_us := 5)",
    "SELECT * FROM link_windows(0, 10)",
    "SELECT * FROM copy_backlog(0, 10)",
    "SELECT * FROM kv_copy_windows(0, 10, only_engine := 1)",
    "SELECT * FROM copy_contention(0, 10, step_us := 5, only_engine := 1)",
    "SELECT * FROM itl_levels(0, 10, source := 'itl_60s', enough_ratio := 0.5)",
    "SELECT * FROM itl_per_output([0.5], 0, 10, step_us := 5, source := 'itl_10s')",
    "SELECT * FROM itl_per_token([0.5, 0.99], 0, 10, step_us := 5, only_engine := 1)",
    "SELECT * FROM ttft_quantile([0.5], 0, 10, step_us := 5)",
    "SELECT tpot_us(900, 10), tpot_us(900, 1), tpot_us(NULL, 10), tpot_us(900, NULL)",
    "SELECT * FROM requests(0, 10, only_engine := 1)",
    "SELECT * FROM requests_by_class(0, 10, with_gaps := false)",
    "SELECT * FROM kv_copies(0, 10, step_us := 5, ranks := 2)",
    "SELECT * FROM kv_fetches(0, 10)",
    "SELECT * FROM kv_hits_of_steps(0, 10, step_us := 5)",
    "SELECT * FROM engine_work(0, 10, step_us := 5)",
    "SELECT * FROM api_server_stall(0, 10, step_us := 5)",
    "SELECT * FROM slowest_gaps(0, 10, at_most := 3, only_class := '2k', only_route := '/v1')",
    "SELECT * FROM slowest_gaps(0, 10, together_us := 100000, only_engine := 1)",
    "SELECT * FROM request_timeline(7, since_us := 0, until_us := 10, of_engine := 1)",
    "SELECT * FROM request_timeline(7)",
    "SELECT throttle_words(36), throttle_words(0), throttle_words(1099511627776)",
    "SELECT us_ago(INTERVAL '15 minutes') > 1700000000000000",
    "SELECT window_start_us(17, 5), bucket_upper_us(-1), bucket_middle_us(32767)",
]


def test_every_module_is_listed_and_every_file_is_a_module() -> None:
    assert sorted(path.stem for path in SQL.glob("*.sql")) == sorted(MODULES)


@pytest.mark.parametrize("statement", library_statements(), ids=lambda s: DEFINES.search(s)[2])  # type: ignore[index]
def test_a_statement_only_defines_and_says_what_it_defines(statement: str) -> None:
    code = "\n".join(line for line in statement.splitlines() if not line.startswith("--"))
    match = DEFINES.match(code)
    assert match is not None, "a module only defines"
    header = statement[: statement.index(code.splitlines()[0])]
    assert header.startswith(f"-- {match[2]}: "), "its comment begins with its name"
    assert ";" not in code
    if not match[2].startswith("_"):
        words = "Columns:" if " AS TABLE" in code or match[1] == "VIEW" else "Returns:"
        assert words in header
    if match[1] == "MACRO":
        assert "Arguments:" in header


def test_views_are_few_since_each_costs_every_publication() -> None:
    views = [s for s in library_statements() if " VIEW " in s.split("AS", maxsplit=1)[0]]
    assert len(views) <= 4


def test_it_can_be_run_over_itself_and_in_parts() -> None:
    with lake_of({}) as lake:
        for statement in library_statements():
            lake.execute(statement)
    parts = library_statements("kv_hits", "time")
    assert parts == library_statements("time") + library_statements("kv_hits")
    with pytest.raises(KeyError, match="nonsense"):
        library_statements("nonsense")


def test_the_reader_needs_no_table_for_the_macros_it_uses() -> None:
    with duckdb.connect(":memory:") as connection:
        for statement in library_statements("histogram_quantile", "itl_quantile", "kv_hits"):
            connection.execute(statement)


def test_parameters_are_never_taken_for_columns_of_stored_rows(tmp_path: Path) -> None:
    """DuckDB refused `step_us := ...` where a view over files has a column of that name."""
    create_lake(tmp_path / "lake")
    row = {"wall_us": 7, "mono_us": 7, "engine": 1, "engine_mono_us": 7, "itl_us": 4, "outputs": 2}
    seal_directly(tmp_path / "lake", {"engine_step": [row]}, sync=False)
    lake = Lake(tmp_path / "lake")
    with lake.connect(library=library_statements()) as connection:
        found = connection.execute(
            "SELECT wall_us, outputs FROM engine_work(0, 100, step_us := 5)"
        ).fetchall()
    assert found == [(5, 2)]


def test_it_gives_the_same_on_the_older_duckdb(duckdb15: Path) -> None:
    script = (
        "import duckdb, json, sys\n"
        "told = json.load(sys.stdin)\n"
        "with duckdb.connect(':memory:') as connection:\n"
        "    for statement in told['make']:\n"
        "        connection.execute(statement)\n"
        "    answers = [connection.execute(sql).fetchall() for sql in told['ask']]\n"
        "print(json.dumps([duckdb.__version__, answers]))\n"
    )
    told = json.dumps({"make": [*empty_views(), *library_statements()], "ask": TRY_ALL})
    done = subprocess.run(
        [duckdb15, "-c", script],
        input=told,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    version, answers = json.loads(done.stdout)
    assert version.startswith("1.5.")
    with lake_of({}, TABLES) as lake:
        here = [lake.execute(sql).fetchall() for sql in TRY_ALL]
    assert answers == json.loads(json.dumps(here))


@pytest.mark.parametrize("source", ["/etc/passwd", "../lake.json", "'x.parquet'", "lake.json"])
def test_a_source_is_a_table_and_never_a_file(source: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    create_lake(lake)
    quoted = source.replace("'", "''")
    sql = f"SELECT * FROM kv_hits(0, 10, source := '{quoted}')"
    with pytest.raises(QueryFailedError):
        run_query(lake, sql, Limits(memory_mb=256, timeout_s=30), library=library_statements())


def test_the_console_runs_the_macros(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    create_lake(lake)
    result = run_query(
        lake, TRY_ALL[4], Limits(memory_mb=256, timeout_s=30), library=library_statements()
    )
    assert result.table.column_names == ["engine", "lower_us", "upper_us", "observations", "note"]


def test_the_newest_row_of_a_fact_counts() -> None:
    rows = [
        {"wall_us": wall, "device": device, "kind": "disk", "name": name}
        for wall, device, name in ((1, 1, "old"), (5, 1, "new"), (3, 2, "other"))
    ]
    with lake_of({"device": rows}) as lake:
        found = lake.execute(f"SELECT device, name FROM ({newest_facts('device')}) ORDER BY 1")
        assert found.fetchall() == [(1, "new"), (2, "other")]
    with pytest.raises(ValueError, match="no key"):
        newest_facts("note")


def test_an_unknown_table_is_an_error_for_people(tmp_path: Path) -> None:
    create_lake(tmp_path / "lake")
    with pytest.raises(StallscopeError, match="nosuch"):
        run_query(tmp_path / "lake", "SELECT * FROM nosuch", Limits(memory_mb=256, timeout_s=30))
