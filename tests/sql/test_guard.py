"""Exactly one reading SELECT, or EXPLAIN of one: on the DuckDB that ships and on the older one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import duckdb
import pytest

from stallscope.errors import QueryRefusedError
from stallscope.sql.guard import QueryFailedError, check_statement
from stallscope.sql.lock import lock
from stallscope.sql.request import Limits
from tests.project.checkout import REPO
from tests.sql.statements import ALLOWED, REFUSED


@pytest.fixture
def connection(tmp_path: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE VIEW note AS SELECT 1 AS wall_us, 'a' AS text")
    connection.execute("CREATE MACRO twice(x) AS TABLE SELECT 2 * x AS doubled")
    lock(connection, tmp_path / "segments", tmp_path / "spill", Limits())
    return connection


@pytest.mark.parametrize("statement", ALLOWED)
def test_reading_is_allowed(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    connection.sql(check_statement(connection, statement)).fetchall()


@pytest.mark.parametrize("statement", REFUSED)
def test_everything_else_is_refused(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    with pytest.raises((QueryRefusedError, QueryFailedError)) as raised:
        check_statement(connection, statement)
    is_refusal = isinstance(raised.value, QueryRefusedError)
    assert is_refusal or raised.value.message.startswith("Parser Error")
    assert raised.value.hint or not is_refusal


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("COPY note TO 'x'", "--format parquet --out"),
        ("SET threads = 8", "sql.memory_mb"),
        ("EXPLAIN ANALYZE SELECT 1", "EXPLAIN without ANALYZE"),
        ("PIVOT note ON text USING count(*)", r"IN \('a', 'b'\)"),
        ("PRAGMA version", "DESCRIBE"),
        ("SELECT * FROM glob('*')", "SHOW TABLES"),
        ("SELECT 1; SELECT 2", "One SELECT"),
        ("WITH a AS (COPY note TO 'x') SELECT * FROM a", "COPY inside a SELECT"),
        ("", "SHOW TABLES"),
    ],
)
def test_a_refusal_tells_what_to_do_instead(
    connection: duckdb.DuckDBPyConnection, statement: str, said: str
) -> None:
    with pytest.raises(QueryRefusedError, match=said):
        check_statement(connection, statement)


def test_an_explain_is_put_together_anew_from_what_was_checked(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    assert check_statement(connection, "explain/**/select 1") == "EXPLAIN /**/select 1"


def test_a_huge_statement_is_refused_before_it_is_parsed(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    with pytest.raises(QueryRefusedError, match="100000 characters"):
        check_statement(connection, "SELECT 1 " + "-" * 100_000)


def test_a_deeply_nested_statement_ends_in_a_message(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    with pytest.raises((QueryRefusedError, QueryFailedError)):
        check_statement(connection, "SELECT " + "(" * 40_000 + "1" + ")" * 40_000)


def test_variables_of_the_program_are_no_tables(connection: duckdb.DuckDBPyConnection) -> None:
    secret = duckdb.connect().sql("SELECT 42 AS answer")
    with pytest.raises(duckdb.CatalogException):
        connection.sql("SELECT * FROM secret")
    assert secret is not None


_IN_ANOTHER_PYTHON = """
import json, sys
from pathlib import Path
import duckdb
from stallscope.errors import StallscopeError
from stallscope.sql.guard import check_statement
from stallscope.sql.lock import lock
from stallscope.sql.request import Limits

connection = duckdb.connect()
connection.execute("CREATE VIEW note AS SELECT 1 AS wall_us, 'a' AS text")
connection.execute("CREATE MACRO twice(x) AS TABLE SELECT 2 * x AS doubled")
lock(connection, Path("/nowhere/segments"), Path("/nowhere/spill"), Limits())
answers = {}
for statement in json.load(sys.stdin):
    try:
        connection.sql(check_statement(connection, statement)).fetchall()
        answers[statement] = "ran"
    except StallscopeError as error:
        answers[statement] = "stopped"
print(json.dumps([duckdb.__version__, answers]))
"""


def test_the_older_duckdb_allows_and_refuses_the_same(duckdb15: Path) -> None:
    result = subprocess.run(
        [duckdb15, "-c", _IN_ANOTHER_PYTHON],
        input=json.dumps([*ALLOWED, *REFUSED]),
        env={"PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    version, answers = json.loads(result.stdout)
    assert version == "1.5.5"
    assert answers == dict.fromkeys(ALLOWED, "ran") | dict.fromkeys(REFUSED, "stopped")
