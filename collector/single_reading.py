"""One reading of every source for people: what works here, what does not and what to do."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from collector.health import Outcome
from collector.hints import hint_for
from collector.names import NamesOfOneSource
from collector.source import NoData, Reading, Row, Rows, Source, SourceError, State
from collector.source_loop import describe_crash, judge
from stallscope.columns import WINDOW
from stallscope.schema import table
from stallscope.units import US_PER_SECOND

_LONGEST_PAUSE_US = US_PER_SECOND


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What one source had to say.

    Attributes:
        source: Its name.
        state: One of `collector.source.State`.
        reason: Why; empty when all went well.
        hint: One sentence on what to do.
        rows: Rows per table, with the engine and device rows that their ids stand for.
    """

    source: str
    state: State
    reason: str
    hint: str
    rows: dict[str, list[Row]]


@dataclass(frozen=True, slots=True)
class Named:
    """A source with the names it asks for."""

    source: Source
    names: NamesOfOneSource


class _Visit:
    """Reads one source in a thread of its own, because a reading may never come back."""

    def __init__(self, named: Named) -> None:
        self._named = named
        self._done: tuple[Outcome, dict[str, list[Row]]] | None = None
        source = named.source
        self._pause_us = min(source.interval_us, _LONGEST_PAUSE_US)
        self._patience_s = (2 * source.deadline_us + self._pause_us) / US_PER_SECOND
        self._thread = threading.Thread(target=self._run, name=source.name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def report(self) -> SourceReport:
        """Return what came of it, waiting no longer than the source's deadlines."""
        self._thread.join(self._patience_s)
        source = self._named.source.name
        outcome, rows = self._done or (self._hung(), {})
        hint = hint_for(source, outcome.state)
        return SourceReport(source, outcome.state, outcome.reason, hint, rows)

    def _hung(self) -> Outcome:
        return Outcome(State.HUNG, f"it did not answer within {self._patience_s:.1f} s")

    def _run(self) -> None:
        try:
            result = self._read()
        except SourceError as error:
            self._done = Outcome(State.FAILED, str(error)), {}
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the others are still to be read
            self._done = Outcome(State.FAILED, describe_crash(error)), {}
        else:
            rows = _plain_rows(result)
            count = sum(map(len, rows.values()))
            self._done = judge(result, count), {**self._named.names.rows, **rows}

    def _read(self) -> Reading | NoData:
        source = self._named.source
        try:
            result = source.read()
            if isinstance(result, Reading) and lacks_window(result.rows):
                threading.Event().wait(self._pause_us / US_PER_SECOND)
                result = source.read()
            return result
        finally:
            source.close()


def read_each(sources: Sequence[Named]) -> list[SourceReport]:
    """Read every source once, all at the same time, and return the reports in the given order.

    A source whose first rows cover no window, because its rates need two polls, is read twice.
    """
    visits = [_Visit(named) for named in sources]
    for visit in visits:
        visit.start()
    return [visit.report() for visit in visits]


def lacks_window(rows: Mapping[str, Rows]) -> bool:
    """Return whether some row of a table with windows has none."""
    return any(
        row.get("window_us") is None
        for name, table_rows in rows.items()
        if any(column.name == WINDOW.name for column in table(name).columns)
        for row in as_rows(table_rows)
    )


def as_rows(rows: Rows) -> Sequence[Row]:
    """Return rows as mappings, whatever form they were delivered in."""
    if isinstance(rows, pa.RecordBatch):
        return list(rows.to_pylist())
    return rows


def _plain_rows(result: Reading | NoData) -> dict[str, list[Row]]:
    if isinstance(result, NoData):
        return {}
    return {table: list(as_rows(rows)) for table, rows in result.rows.items()}
