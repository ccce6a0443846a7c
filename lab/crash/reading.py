"""Who reads a lake in a trial: our own reader, and DuckDB clients that know nothing of us."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from lab.report import Check
from stallscope.errors import StallscopeError
from stallscope.storage.layout import open_lake
from stallscope.storage.reader import Lake

Answers: TypeAlias = Mapping[str, Sequence[Sequence[object]]]
_CLIENT = Path(__file__).with_name("outside_query.py")
_OLD_PYTHON = Path(__file__).resolve().parents[2] / ".venv-duckdb15" / "bin" / "python"


class LakeReader(Protocol):
    """Answers queries over the tables of a lake."""

    @property
    def name(self) -> str:
        """Who reads."""

    def ask(self, lake: Path, queries: Mapping[str, str]) -> Answers:
        """Return the rows of each query, all over one state of the lake."""


class OwnReader:
    """Reads by the manifest."""

    name = "own reader"

    def ask(self, lake: Path, queries: Mapping[str, str]) -> Answers:
        """Return the rows of each query."""
        with Lake(lake).connect() as connection:
            return {name: connection.execute(query).fetchall() for name, query in queries.items()}


@dataclass(frozen=True, slots=True)
class OutsideReader:
    """Reads catalog.duckdb with the DuckDB of some Python.

    Attributes:
        python: That Python.
        version: Its DuckDB's version.
    """

    python: Path
    version: str

    @property
    def name(self) -> str:
        """Who reads."""
        return f"DuckDB {self.version}"

    def ask(self, lake: Path, queries: Mapping[str, str]) -> Answers:
        """Return the rows of each query.

        Raises:
            StallscopeError: The client failed.
        """
        request = {"catalog": str(open_lake(lake).catalog), "queries": dict(queries)}
        done = subprocess.run(
            [str(self.python), str(_CLIENT)],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            last = done.stderr.strip().splitlines()[-1:]
            raise StallscopeError(f"{self.name} failed: {' '.join(last)}")
        answers: Answers = json.loads(done.stdout)
        return answers


def find_outside_readers() -> tuple[list[OutsideReader], list[Check]]:
    """Return this machine's DuckDB clients, and a skipped check for the one that is missing."""
    readers = [_reader(Path(sys.executable))]
    if _OLD_PYTHON.exists():
        return [*readers, _reader(_OLD_PYTHON)], []
    reason = f"no {_OLD_PYTHON}: run tools/prepare duckdb15"
    return readers, [Check("DuckDB 1.5.5 as outside reader", None, reason)]


def _reader(python: Path) -> OutsideReader:
    """Return the client of a Python, having asked it for its version."""
    command = [str(python), "-c", "import duckdb; print(duckdb.__version__)"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return OutsideReader(python, version)
