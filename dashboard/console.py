"""Queries of the SQL page: each runs beside the page, can be cancelled, and leaves its result here.

Results are not kept in a session's state, where they would stay for as long as a browser tab does,
but in one store per process that drops the oldest.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import streamlit as st

from stallscope.errors import StallscopeError
from stallscope.sql.console import Limits, Query, open_query

KEPT_JOBS = 24
KEPT_BYTES = 256_000_000
RUNNING_JOBS = 4
"""Queries at once; each is a process with its own memory limit."""


@dataclass(slots=True)
class Job:
    """A query, running or ended.

    Attributes:
        id: What the session remembers.
        sql: What is asked.
        started_s: When, on the monotonic clock.
        state: running, done, failed, refused or cancelled.
        message: What is wrong, and what to do; empty when nothing is.
        table: The result once it is done.
        truncated: Whether rows were left out because of the limits.
        seconds: How long it took.
    """

    id: str
    sql: str
    started_s: float
    state: str = "running"
    message: str = ""
    table: pa.Table | None = None
    truncated: bool = False
    seconds: float = 0.0
    _query: Query | None = field(default=None, repr=False)
    _cancelled: bool = field(default=False, repr=False)

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.state == "running"

    def cancel(self) -> None:
        """Stop it; any thread may ask."""
        self._cancelled = True
        if self._query is not None:
            self._query.cancel()

    def run(self, opened: Callable[[], AbstractContextManager[Query]]) -> None:
        """Run to the end, whatever it is; never raises for what is wrong with the query."""
        try:
            with opened() as query:
                self._query = query
                if self._cancelled:
                    query.cancel()
                table = pa.Table.from_batches(query.batches(), query.schema)
                self.table, self.truncated = table, query.truncated
            self._end("done")
        except StallscopeError as error:
            refused = type(error).__name__ == "QueryRefusedError"
            ended = "cancelled" if self._cancelled else "refused" if refused else "failed"
            self._end(ended, str(error))
        except (OSError, pa.ArrowException) as error:  # no process to be had, or half a result
            self._end("failed", f"The query could not be run: {error}")
        finally:
            self._query = None

    def _end(self, state: str, message: str = "") -> None:
        """Note the end; the state comes last, since it is what others look at."""
        self.seconds = time.monotonic() - self.started_s
        self.message = "Cancelled." if state == "cancelled" else message
        self.state = state


class Console:
    """All queries of this process."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, lake: Path, sql: str, limits: Limits, library: tuple[str, ...]) -> Job:
        """Start a query and return at once.

        Raises:
            StallscopeError: Too many are running.
        """
        job = Job(uuid.uuid4().hex, sql, time.monotonic())
        with self._lock:
            if sum(other.running for other in self._jobs.values()) >= RUNNING_JOBS:
                raise StallscopeError(
                    f"{RUNNING_JOBS} queries run already", "Wait for one, or cancel it"
                )
            self._jobs[job.id] = job
            self._drop_oldest()
        thread = threading.Thread(
            target=job.run,
            args=(lambda: open_query(lake, sql, limits, library=library),),
            name=f"sql-{job.id[:8]}",
            daemon=True,
        )
        thread.start()
        return job

    def job(self, job_id: str | None) -> Job | None:
        """Return a query, or None when it was dropped or never was."""
        with self._lock:
            return self._jobs.get(job_id or "")

    def _drop_oldest(self) -> None:
        """Keep results within their limits of number and bytes; running queries stay."""
        ended = [job for job in self._jobs.values() if not job.running]
        size = sum(job.table.nbytes for job in ended if job.table is not None)
        for job in ended:
            if len(self._jobs) <= KEPT_JOBS and size <= KEPT_BYTES:
                return
            size -= 0 if job.table is None else job.table.nbytes
            del self._jobs[job.id]


@st.cache_resource(show_spinner=False)
def console() -> Console:
    """Return the store of this process."""
    return Console()
