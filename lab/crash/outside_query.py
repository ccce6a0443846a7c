"""Runs queries in some other DuckDB: started by path with the Python that has it.

Reads ``{"catalog": PATH, "queries": {NAME: SQL}}`` from stdin, writes ``{NAME: ROWS}``. Uses
nothing of ours, so that an old DuckDB in a bare environment can stand for any outside client.
"""

from __future__ import annotations

import json
import sys

import duckdb


def answer(catalog: str, queries: dict[str, str]) -> dict[str, list[list[object]]]:
    """Return the rows of each query over a catalog that is opened read-only."""
    with duckdb.connect(catalog, read_only=True) as connection:
        return {
            name: [list(row) for row in connection.execute(query).fetchall()]
            for name, query in queries.items()
        }


if __name__ == "__main__":
    request = json.load(sys.stdin)
    json.dump(answer(request["catalog"], request["queries"]), sys.stdout)
