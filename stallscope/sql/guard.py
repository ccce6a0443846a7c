"""Which statements a person may run: exactly one SELECT, or EXPLAIN of one, that reads tables.

The kind of a statement alone does not tell: DuckDB 2.0 calls ``WITH a AS (COPY ... TO 'file')
SELECT ...`` a SELECT, and table functions write files (enable_logging), read them (read_text) or
change the instance. So the parsed statement is walked as well, and what is not known is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

import duckdb

from stallscope.errors import QueryRefusedError, StallscopeError

_MAX_LENGTH = 100_000
_QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_TABLE_FUNCTIONS = frozenset(
    {
        "range",
        "generate_series",
        "unnest",
        "repeat",
        "repeat_row",
        "json_each",
        "json_tree",
        "histogram",
        "histogram_values",
        "duckdb_columns",
        "duckdb_functions",
        "duckdb_keywords",
        "duckdb_schemas",
        "duckdb_tables",
        "duckdb_types",
        "duckdb_views",
        "pragma_table_info",
        "pragma_version",
        "pg_timezone_names",
    }
)
_SCALARS_WITH_EFFECTS = frozenset({"write_log", "nextval", "setval"})
_ONE_SELECT = "One SELECT can be run here, or EXPLAIN of one."
_HINTS = {
    "COPY": "To keep a result as a file, export it: stallscope sql --format parquet --out FILE.",
    "EXPORT": "To keep a result as a file, export it: stallscope sql --format parquet --out FILE.",
    "SET": "Limits are settings of stallscope: sql.memory_mb, sql.timeout_s.",
    "PRAGMA": "To see tables and columns: SHOW TABLES, DESCRIBE engine_metrics.",
    "MULTI": "Name the columns of a PIVOT: PIVOT t ON x IN ('a', 'b') USING sum(y).",
}
_EXPLAIN = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*explain\b", re.IGNORECASE | re.DOTALL)
_ANALYZE = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*\(?\s*analy[sz]e\b", re.IGNORECASE | re.DOTALL)


class QueryFailedError(StallscopeError):
    """A query is allowed, but wrong, too big or too slow."""


def check_statement(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return the statement to execute.

    Args:
        connection: Where it will run, already locked: in DuckDB 1.5 parsing IMPORT DATABASE reads
            files.
        sql: What a person wrote.

    Raises:
        QueryRefusedError: It is something else than one reading SELECT or EXPLAIN of one.
        QueryFailedError: It is not SQL.
    """
    if not sql.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in sql):
        raise QueryFailedError("The statement holds half a character", "Save it as UTF-8.")
    if len(sql) > _MAX_LENGTH:
        raise QueryRefusedError(f"The statement has more than {_MAX_LENGTH} characters", "")
    kind = _kind_of_only_statement(connection, sql)
    if kind == "SELECT":
        _check_tree(connection, sql)
        return sql
    if kind == "EXPLAIN":
        return f"EXPLAIN {_explained(connection, sql)}"
    hint = f"{_ONE_SELECT} {_HINTS.get(kind, '')}".strip()
    name = "This PIVOT" if kind == "MULTI" else kind
    raise QueryRefusedError(f"{name} is refused: the lake is only read here", hint)


def _kind_of_only_statement(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    try:
        statements = connection.extract_statements(sql)
    except duckdb.ParserException as error:
        raise failure(error) from error
    except duckdb.Error as error:  # IMPORT DATABASE of 1.5 reads its file while parsing
        raise QueryRefusedError(f"Refused: {one_line(error)}", _ONE_SELECT) from error
    except ValueError as error:  # UPDATE EXTENSIONS of 2.0: "29 is not a valid StatementType"
        raise QueryRefusedError("This kind of statement is refused", _ONE_SELECT) from error
    if not statements:
        raise QueryRefusedError("There is no statement", "For example: SHOW TABLES")
    if any(not statement.query for statement in statements):  # how 1.5 rewrites such a PIVOT
        return "MULTI"
    if len(statements) > 1:
        raise QueryRefusedError(f"{len(statements)} statements at once are refused", _ONE_SELECT)
    try:
        return str(statements[0].type.name).upper()
    except ValueError:
        return "This kind of statement"


def _explained(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return the SELECT that an EXPLAIN is about, without options of the EXPLAIN."""
    found = _EXPLAIN.match(sql)
    inner = "" if found is None else sql[found.end() :]
    if _ANALYZE.match(inner):
        raise QueryRefusedError(
            "EXPLAIN ANALYZE is refused: it runs the statement", "Use EXPLAIN without ANALYZE."
        )
    try:
        kind = _kind_of_only_statement(connection, inner)
    except QueryFailedError:
        kind = "EXPLAIN with options"
    if kind != "SELECT":
        raise QueryRefusedError(f"EXPLAIN of this ({kind}) is refused", "EXPLAIN SELECT ... works.")
    _check_tree(connection, inner)
    return inner


def _check_tree(connection: duckdb.DuckDBPyConnection, select: str) -> None:
    tree = _parsed(connection, select)
    macros = {
        str(name).lower()
        for (name,) in connection.execute(
            "SELECT function_name FROM duckdb_functions() "
            "WHERE NOT internal AND function_type = 'table_macro'"
        ).fetchall()
    }
    for part in _parts(tree):
        _check_part(part, macros)


def _parsed(connection: duckdb.DuckDBPyConnection, select: str) -> object:
    row = connection.execute("SELECT json_serialize_sql(?)", [select]).fetchone()
    try:
        tree = json.loads(row[0]) if row else {"error": True}
    except RecursionError as error:
        raise QueryRefusedError("The statement is nested too deeply to be checked") from error
    if tree["error"]:
        # In 1.5 a PRAGMA passes for a SELECT until here.
        raise QueryRefusedError(
            f"Refused: {tree.get('error_message', 'not a SELECT')}", _ONE_SELECT
        )
    return tree


def _parts(tree: object) -> Iterator[Mapping[str, object]]:
    """Yield every object of a parsed statement."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _check_part(part: Mapping[str, object], macros: set[str]) -> None:
    kind = str(part.get("type", ""))
    if kind.endswith("_NODE") and kind not in _QUERIES:
        what = kind.removesuffix("_NODE").removesuffix("_QUERY")
        raise QueryRefusedError(
            f"{what} inside a SELECT is refused: the lake is only read here", _ONE_SELECT
        )
    if kind == "TABLE_FUNCTION":
        _check_table_function(part, macros)
    if part.get("class") == "FUNCTION" and _name_of(part) in _SCALARS_WITH_EFFECTS:
        raise QueryRefusedError(f"The function {_name_of(part)} is refused", _ONE_SELECT)


def _check_table_function(part: Mapping[str, object], macros: set[str]) -> None:
    function = part.get("function")
    name = _name_of(function) if isinstance(function, dict) else ""
    if name not in _TABLE_FUNCTIONS and name not in macros:
        raise QueryRefusedError(
            f"The table function {name or '(unnamed)'} is refused: files and the database itself "
            "are out of reach here",
            "Read the lake's tables: SHOW TABLES lists them.",
        )


def _name_of(function: Mapping[str, object]) -> str:
    return str(function.get("function_name", "")).lower()


def failure(error: duckdb.Error) -> QueryFailedError:
    """Return what DuckDB says about a query as our own error, on one line."""
    message = one_line(error)
    if isinstance(error, duckdb.OutOfMemoryException) or message.startswith("Out of Memory"):
        return too_big()
    if isinstance(error, duckdb.PermissionException):
        return QueryFailedError(message, "Only the lake's tables can be read here.")
    if isinstance(error, duckdb.CatalogException):
        return QueryFailedError(message, "SHOW TABLES lists the tables, DESCRIBE x the columns.")
    return QueryFailedError(message)


def too_big() -> QueryFailedError:
    """Return the error of a query that ran into its limits of memory and disk."""
    return QueryFailedError(
        "The query needs more memory or disk than it may have",
        "Narrow the time range, aggregate, or raise sql.memory_mb.",
    )


def one_line(error: BaseException) -> str:
    """Return DuckDB's message without its excerpt of the statement."""
    text = str(error).partition("\n\nLINE ")[0]
    return " ".join(text.split())
