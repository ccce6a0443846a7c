"""What adds up since the start: histograms of latency, counters of the sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stallscope.exposition.families import SOURCE_COUNTERS, Feed
from stallscope.exposition.latest import Row


@dataclass(slots=True)
class Histogram:
    """Observations since the start, in the engine's own buckets.

    Attributes:
        bounds: Inclusive upper bounds in microseconds, without +Inf.
        counts: Observations per bucket, not cumulative, one longer than bounds.
        sum_us: Their sum; None once a window came without one.
    """

    bounds: tuple[int, ...]
    counts: list[int]
    sum_us: int | None = 0

    def add(self, counts: Sequence[int], sum_us: object) -> None:
        """Add the observations of one window."""
        self.counts = [old + new for old, new in zip(self.counts, counts, strict=True)]
        if self.sum_us is not None:
            self.sum_us = self.sum_us + sum_us if isinstance(sum_us, int) else None


class ItlHistograms:
    """Inter-token latency per engine, added up from the growth of the engine's histogram.

    The bounds are the engine's: splitting its buckets at bounds of our own would invent
    observations. An engine that comes back with other bounds starts again from zero, which
    Prometheus reads as a reset.
    """

    def __init__(self) -> None:
        self._by_engine: dict[object, Histogram] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows of engine_histogram; families other than ``itl_us`` are passed over."""
        for row in rows:
            if row["family"] == "itl_us":
                histogram = self._histogram(row["engine"], _integers(row["bounds"]))
                histogram.add(_integers(row["counts"]), row.get("sum"))

    def of(self, engine: object) -> Histogram | None:
        """Return an engine's histogram, or None when it never reported one."""
        return self._by_engine.get(engine)

    def _histogram(self, engine: object, bounds: tuple[int, ...]) -> Histogram:
        found = self._by_engine.get(engine)
        if found is None or found.bounds != bounds:
            found = Histogram(bounds, [0] * (len(bounds) + 1))
            self._by_engine[engine] = found
        return found


class SourceCounters:
    """Rejects, failures, drops and CPU per source since the start."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[str, int]] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows of source_health."""
        for row in rows:
            sums = self._sums.setdefault(str(row["source"]), {})
            for column in SOURCE_COUNTERS:
                if isinstance(value := row.get(column), int):
                    sums[column] = sums.get(column, 0) + value

    def items(self) -> Iterable[tuple[str, Mapping[str, int]]]:
        """Return (source, sum per column); a column that never had a value is left out."""
        return self._sums.items()


class Growth:
    """Counters whose columns hold growth per window, added up since the start.

    A series is named by the entity and by how its value was come by: what another method counted
    adds up apart, since methods differ in what they count.

    Args:
        feeds: Columns to add up; others are passed over.
    """

    def __init__(self, feeds: Iterable[Feed]) -> None:
        self._feeds: dict[str, list[Feed]] = {}
        for feed in feeds:
            if feed.adds_up:
                self._feeds.setdefault(feed.table.name, []).append(feed)
        self._sums: dict[tuple[object, ...], float] = {}

    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows of a table; a value that is NULL adds nothing."""
        feeds = self._feeds.get(table, ())
        for row in rows if feeds else ():
            for feed in feeds:
                if isinstance(grown := row.get(feed.column.name), int):
                    series = _series(feed, row)
                    self._sums[series] = self._sums.get(series, 0) + grown

    def of(self, feed: Feed, row: Row) -> float | None:
        """Return the sum of a row's series, or None while the row itself has no value."""
        return None if row.get(feed.column.name) is None else self._sums.get(_series(feed, row))


def _series(feed: Feed, row: Row) -> tuple[object, ...]:
    names = (*feed.table.key, *((feed.row_label.column,) if feed.row_label else ()))
    return (feed.table.name, feed.column.name, *(row.get(name) for name in names))


def _integers(value: object) -> tuple[int, ...]:
    """Return a list column's value as integers; other values are an error of the writer."""
    if not isinstance(value, Sequence):
        msg = f"not a list: {value!r}"
        raise TypeError(msg)
    return tuple(int(item) for item in value)
