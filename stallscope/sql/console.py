"""A person's SQL over a lake, run in a process of its own that can do nothing else.

Used by ``stallscope sql`` and the SQL page. What the query's process may do is in
`stallscope.sql.sandbox` (operating system), `stallscope.sql.session` (DuckDB) and
`stallscope.sql.guard` (statements). Results come back as Arrow; files are written from
them by the caller, never by the query.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from stallscope.errors import LakeError, QueryRefusedError, StallscopeError
from stallscope.sql.guard import QueryFailedError
from stallscope.sql.request import Limits, Report, Request
from stallscope.sql.scratch import scratch_folder

__all__ = [
    "Limits",
    "Query",
    "QueryFailedError",
    "QueryRefusedError",
    "QueryResult",
    "open_query",
    "run_query",
]

_ENVIRONMENT = ("PATH", "PYTHONHOME", "LD_LIBRARY_PATH")
_STDERR = "stderr"
_ERRORS: Mapping[str, type[StallscopeError]] = {
    "refused": QueryRefusedError,
    "failed": QueryFailedError,
    "no_lake": LakeError,
}


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A whole result.

    Attributes:
        table: The rows.
        truncated: Whether rows were left out because of the limits.
        seconds: How long it took, start of the process included.
        sandbox: What the operating system enforced, see `stallscope.sql.sandbox.enter`.
    """

    table: pa.Table
    truncated: bool
    seconds: float
    sandbox: Mapping[str, str] = field(default_factory=dict)


class Query:
    """A running query; made by `open_query`.

    Attributes:
        truncated: Whether rows were left out because of the limits; known after the last batch.
        sandbox: What the operating system enforced; known after the last batch.
    """

    truncated: bool
    sandbox: Mapping[str, str]

    def __init__(self, request: Request) -> None:
        self._request = request
        self._stopped_for = ""
        self._reader: pa.RecordBatchReader | None = None
        self.truncated = False
        self.sandbox = {}
        self._process = _start(request.scratch)
        self._timer = threading.Timer(request.limits.timeout_s, self._stop, ["time"])
        self._timer.daemon = True
        self._timer.start()

    @property
    def process_id(self) -> int:
        """Return the id of the process that runs it."""
        return self._process.pid

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result, waiting for them.

        Raises:
            QueryRefusedError: The statement is not allowed.
            QueryFailedError: It is wrong, too big or too slow.
            LakeError: There is no lake to read.
        """
        return self._begun().schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result batch by batch.

        Raises:
            StallscopeError: As for `schema`; the batches before it are good.
        """
        reader = self._begun()
        with contextlib.suppress(pa.ArrowInvalid, OSError):  # cut short: the report says why
            yield from reader
        self._finish()

    def _begun(self) -> pa.RecordBatchReader:
        """Hand the query over and wait until its result begins."""
        if self._reader is None:
            assert self._process.stdin is not None  # noqa: S101 - for the type checker
            with contextlib.suppress(BrokenPipeError):  # it died: its exit code says why
                self._process.stdin.write(self._request.encode())
                self._process.stdin.close()
            try:
                self._reader = pa.ipc.open_stream(self._process.stdout)
            except pa.ArrowInvalid:  # nothing came
                self._finish()
                raise QueryFailedError("The query's process sent nothing") from None
        return self._reader

    def cancel(self) -> None:
        """Stop the query; any thread may call it. The reading thread gets a QueryFailedError."""
        self._stop("wish")

    def close(self) -> None:
        """End the query's process, whatever it does."""
        self._timer.cancel()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _stop(self, why: str) -> None:
        self._stopped_for = why
        self._process.kill()

    def _finish(self) -> None:
        """Look how the process ended.

        Raises:
            StallscopeError: It did not end well.
        """
        code = self._process.wait()
        self._timer.cancel()
        report = Report.read(self._request.scratch)
        if report is None:
            raise self._without_report(code)
        if report.kind != "done":
            raise _ERRORS[report.kind](report.message, report.hint)
        self.truncated = report.truncated
        self.sandbox = report.sandbox or {}

    def _without_report(self, code: int) -> QueryFailedError:
        if self._stopped_for == "time":
            return QueryFailedError(
                f"The query was stopped after {self._request.limits.timeout_s:g} s",
                "Narrow the time range, aggregate, or raise sql.timeout_s.",
            )
        if self._stopped_for:
            return QueryFailedError("The query was cancelled")
        if code < 0:
            return QueryFailedError(
                f"The query's process ended with signal {-code}, most likely for want of memory",
                "Narrow the time range, aggregate, or raise sql.memory_mb.",
            )
        words = (self._request.scratch / _STDERR).read_text(encoding="utf-8", errors="replace")
        last = words.strip().rpartition("\n")[2]
        return QueryFailedError(f"The query's process ended with exit code {code}: {last}")


@contextlib.contextmanager
def open_query(
    lake: Path, sql: str, limits: Limits, *, library: Iterable[str] = ()
) -> Iterator[Query]:
    """Start a statement; its result comes batch by batch, and what is wrong with it comes then.

    Args:
        lake: Folder of the lake.
        sql: Exactly one SELECT, or EXPLAIN of one.
        limits: How much it may take.
        library: Statements that define views and macros.
    """
    with scratch_folder() as scratch:
        query = Query(Request(lake.resolve(), scratch, sql, tuple(library), limits))
        try:
            yield query
        finally:
            query.close()


def run_query(lake: Path, sql: str, limits: Limits, *, library: Iterable[str] = ()) -> QueryResult:
    """Run a statement and return its whole result; arguments as in `open_query`.

    Raises:
        QueryRefusedError: The statement is not allowed.
        QueryFailedError: It is wrong, too big or too slow.
        LakeError: There is no lake to read.
    """
    started = time.monotonic()
    with open_query(lake, sql, limits, library=library) as query:
        table = pa.Table.from_batches(query.batches(), query.schema)
        return QueryResult(table, query.truncated, time.monotonic() - started, query.sandbox)


def _start(scratch: Path) -> subprocess.Popen[bytes]:
    with (scratch / _STDERR).open("wb") as stderr:
        return subprocess.Popen(
            # -P: a file of the working directory must not pass for one of our packages.
            [sys.executable, "-P", "-m", "stallscope.sql.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=scratch,
            env=_environment(),
        )


def _environment() -> dict[str, str]:
    """Return what the query's process may know of our environment: no keys, no tokens."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    if os.environ.get("PYTHONPATH"):  # entries are relative to our working directory, not its own
        folders = os.environ["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(str(Path(folder).absolute()) for folder in folders)
    return kept | {
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "OMP_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }
