"""What DuckDB itself forbids a connection that runs a person's query."""

from __future__ import annotations

from pathlib import Path

import duckdb

from stallscope.sql.request import Limits


def lock(
    connection: duckdb.DuckDBPyConnection, segments: Path, spill: Path, limits: Limits
) -> None:
    """Take everything from a connection that reading the lake's tables does not need.

    The order matters: folders cannot be named after external access is off, and nothing can be set
    after the configuration is locked.

    Args:
        connection: An in-memory connection with its views.
        segments: The only folder whose files it may open.
        spill: Where it may put what does not fit in memory.
        limits: How much it may take.
    """
    for setting in (
        "TimeZone = 'UTC'",
        "python_enable_replacements = false",  # else FROM x reads variables of this program
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        f"allowed_directories = [{_quoted(segments)}]",
        f"memory_limit = '{limits.memory_mb}MB'",
        f"temp_directory = {_quoted(spill)}",
        f"max_temp_directory_size = '{limits.spill_mb}MB'",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
