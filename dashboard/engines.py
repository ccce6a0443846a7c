"""The engines and disks that the lake knows by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import streamlit as st

from analytics.facts import newest_facts
from dashboard.data import Question, connected, open_lake, rows
from stallscope.storage.reader import Lake

FACT_TABLES = ("engine", "device")


@dataclass(frozen=True, slots=True)
class Engine:
    """What is known of an engine.

    Attributes:
        id: Id in the signals.
        name: Short name for people, the rank behind it where several share a name.
        model: Served model; empty when the engine names none.
        endpoint: Address of its metrics page.
        kind: vllm, sglang ...
        host: Host it runs on.
    """

    id: int
    name: str
    model: str
    endpoint: str
    kind: str
    host: str


def read_engines(connection: duckdb.DuckDBPyConnection) -> list[Engine]:
    """Return all engines the lake ever saw, newest id first."""
    found = rows(connection, newest_facts("engine"))
    names = [row["name"] or row["model"] or row["endpoint"] for row in found]
    engines = [
        Engine(
            id=row["engine"],
            name=name if names.count(name) == 1 else f"{name} {_apart(row, found)}",
            model=row["model"],
            endpoint=row["endpoint"],
            kind=row["kind"],
            host=row["host"],
        )
        for row, name in zip(found, names, strict=True)
    ]
    return sorted(engines, key=lambda engine: -engine.id)


def _apart(row: dict[str, object], found: list[dict[str, object]]) -> str:
    """Return what tells an engine from others of its name: the rank, else the id."""
    ranks = [other["rank"] for other in found if other["name"] == row["name"]]
    rank = row["rank"]
    return f"rank {rank}" if rank and ranks.count(rank) == 1 else f"#{row['engine']}"


def read_disks(connection: duckdb.DuckDBPyConnection) -> dict[int, str]:
    """Return the names of the disks by device id."""
    found = rows(connection, newest_facts("device"))
    return {row["device"]: row["name"] for row in found if row["kind"] == "disk"}


def facts_version(lake: Lake) -> tuple[str, ...]:
    """Return what changes when names do: the segments that hold them.

    Raises:
        LakeError: A manifest cannot be read.
    """
    return tuple(sorted(entry.file for entry in lake.entries(FACT_TABLES)))


@st.cache_data(max_entries=8, show_spinner=False)
def names(lake_path: Path, version: tuple[str, ...]) -> tuple[list[Engine], dict[int, str]]:
    """Return all engines and the names of all disks; read anew only when there are new facts.

    Args:
        lake_path: Folder of the lake.
        version: What `facts_version` returns: part of the cache key, nothing else.

    Raises:
        LakeError: A manifest cannot be read.
    """
    del version
    with connected(open_lake(lake_path), Question(FACT_TABLES)) as connection:
        return read_engines(connection), read_disks(connection)
