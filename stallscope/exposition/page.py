"""The page itself: what is known right now, in the text format that the reader asks for."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from stallscope import columns
from stallscope.clock import Clock
from stallscope.exposition import families
from stallscope.exposition.accumulated import (
    Growth,
    Histogram,
    ItlHistograms,
    SourceCounters,
)
from stallscope.exposition.families import Family, Feed, Label
from stallscope.exposition.hit_ratios import HitRatios
from stallscope.exposition.latest import LatestRows, Row
from stallscope.units import us_to_seconds

FactsOf = Callable[[str, int], Row | None]
"""Returns the facts behind an id of kind ``engine`` or ``device``; None when it is not known."""

_LONGEST_LABEL = 200
_DELIVERING = frozenset({"working", "partial", "late"})


class Page(Collector):
    """Holds the latest rows of this process and shows them.

    Args:
        facts: Turns ids into names.
        clock: Decides what is stale.
        build: Labels of ``stallscope_build_info``: version, schema_version, host.
    """

    def __init__(self, facts: FactsOf, clock: Clock, build: Mapping[str, str]) -> None:
        self._facts = facts
        self._clock = clock
        self._build = dict(build)
        self._lock = threading.Lock()
        self._families = families.column_families()
        feeds = [feed for family in self._families for feed in family.feeds]
        self._latest = {feed.table.name: LatestRows(feed.table) for feed in feeds}
        self._growth = Growth(feeds)
        self._itl = ItlHistograms()
        self._hits = HitRatios()
        self._sources = SourceCounters()

    def observe(self, table: str, rows: Sequence[Row] | pa.RecordBatch, interval_us: int) -> None:
        """Take rows as they go to the lake; tables that are not shown cost nothing.

        Args:
            table: Their table.
            rows: The rows, oldest first.
            interval_us: Pace of their source: it decides when they are stale.
        """
        if table not in self._latest and table != "engine_histogram":
            return
        plain = rows.to_pylist() if isinstance(rows, pa.RecordBatch) else rows
        with self._lock:
            if table == "engine_histogram":
                self._itl.add(plain)
                return
            self._latest[table].keep(plain, interval_us)
            self._growth.add(table, plain)
            if table == "engine_metrics":
                self._hits.add(plain)
            elif table == "source_health":
                self._sources.add(plain)

    def collect(self) -> Iterator[Metric]:
        """Yield every family that has at least one sample."""
        with self._lock:
            now_us = self._clock.now().mono_us
            fresh = {name: latest.fresh(now_us) for name, latest in self._latest.items()}
            metrics = [
                self._info(),
                *(self._column_family(family, fresh) for family in self._families),
                self._itl_family(fresh["engine_metrics"]),
                self._hit_family(fresh["engine_metrics"], now_us),
                *_source_families(fresh["source_health"]),
                self._link_states(fresh["gpu_link"]),
                *self._counter_families(),
            ]
        yield from (metric for metric in metrics if metric.samples)

    def _info(self) -> Metric:
        name = families.BUILD.name.removesuffix("_info")
        build = {label: label_text(text) for label, text in self._build.items()}
        return InfoMetricFamily(name, families.BUILD.meaning, value=build)

    def _column_family(self, family: Family, fresh: Mapping[str, Sequence[Row]]) -> Metric:
        samples: dict[tuple[tuple[str, str], ...], float] = {}
        for feed in family.feeds:
            for row in fresh[feed.table.name]:
                value = self._value(feed, row)
                if value is not None:
                    told = self._labels(feed.labels, row)
                    labels = tuple({**told, **dict(feed.metric.labels)}.items())
                    # Threads of one engine may share a name: the worst of them is shown.
                    samples[labels] = max(value, samples.get(labels, value))
        return _metric(family, samples.items())

    def _value(self, feed: Feed, row: Row) -> float | None:
        stored = self._growth.of(feed, row) if feed.adds_up else row.get(feed.column.name)
        return number_of(stored, feed.metric)

    def _labels(self, wanted: Iterable[Label], row: Row) -> dict[str, str]:
        texts = ((label.name, self._text(label, row)) for label in wanted)
        return {name: label_text(text) for name, text in texts if text}

    def _text(self, label: Label, row: Row) -> str:
        value = row.get(label.column)
        if value is None or not label.fact:
            return "" if value is None else str(value)
        facts = self._facts(label.column, value) if isinstance(value, int) else None
        if facts is None:
            # Without facts the id itself still keeps two entities apart.
            return str(value) if label.fact == "name" else ""
        fact = facts.get(label.fact)
        return "" if fact is None else str(fact)

    def _engines(self, rows: Iterable[Row]) -> dict[tuple[tuple[str, str], ...], object]:
        """Return engine ids by labels: where two ids share them, the later one is alive."""
        wanted = families.ENTITY_LABELS["engine_metrics"]
        return {tuple(self._labels(wanted, row).items()): row["engine"] for row in rows}

    def _itl_family(self, engines: Sequence[Row]) -> Metric:
        metric = HistogramMetricFamily(families.ITL.name, families.ITL.meaning)
        for labels, engine in self._engines(engines).items():
            histogram = self._itl.of(engine)
            if histogram is not None:
                _add_histogram(metric, dict(labels), histogram)
        return metric

    def _hit_family(self, engines: Sequence[Row], now_us: int) -> Metric:
        samples = [
            ((*labels, ("tier", tier)), ratio)
            for labels, engine in self._engines(engines).items()
            for tier, ratio in self._hits.of(engine, now_us).items()
        ]
        return _metric(families.KV_HIT_RATIO, samples)

    def _link_states(self, rows: Sequence[Row]) -> Metric:
        wanted = (*families.ENTITY_LABELS["gpu_link"], Label("state", "state"))
        samples = [(self._labels(wanted, row).items(), 1.0) for row in rows if row.get("state")]
        return _metric(families.LINK_STATE, samples)

    def _counter_families(self) -> Iterator[Metric]:
        for column, (family, unit) in families.SOURCE_COUNTERS.items():
            samples = [
                (_source_labels(source), sums[column] / unit)
                for source, sums in self._sources.items()
                if column in sums
            ]
            yield _metric(family, samples)


def render(page: Collector, accept: str) -> tuple[str, bytes]:
    """Return (Content-Type, page) in the format that an Accept header asks for.

    Args:
        page: What to show.
        accept: The header's value, or an empty string: text format 0.0.4.
    """
    encoder, content_type = choose_encoder(accept)
    return content_type, encoder(page)


def number_of(value: object, metric: columns.Metric) -> float | None:
    """Return a stored value in its base unit, or None when there is none to show."""
    if not isinstance(value, int | float):
        return None
    # Dividing by the whole number gives the float nearest to the decimal: 5 us is 5e-06.
    scaled = value / round(1 / metric.scale) if metric.scale < 1 else value * metric.scale
    return scaled if math.isfinite(scaled) else None


def label_text(text: str) -> str:
    """Return a label value that any reader takes: valid UTF-8 and of bounded length."""
    return text[:_LONGEST_LABEL].encode("utf-8", "replace").decode("utf-8")


def _metric(family: Family, samples: Iterable[tuple[Iterable[tuple[str, str]], float]]) -> Metric:
    if family.kind == "counter":
        metric: Metric = CounterMetricFamily(family.name, family.meaning)
    else:
        metric = GaugeMetricFamily(family.name, family.meaning)
    for labels, value in samples:
        metric.add_sample(family.name, dict(labels), value)
    return metric


def _add_histogram(metric: Metric, labels: Mapping[str, str], histogram: Histogram) -> None:
    name, total = metric.name, 0
    bounds = [str(us_to_seconds(bound)) for bound in histogram.bounds]
    for bound, count in zip([*bounds, "+Inf"], histogram.counts, strict=True):
        total += count
        metric.add_sample(f"{name}_bucket", {**labels, "le": bound}, total)
    if histogram.sum_us is not None:
        metric.add_sample(f"{name}_count", dict(labels), total)
        metric.add_sample(f"{name}_sum", dict(labels), us_to_seconds(histogram.sum_us))


def _source_labels(source: object) -> tuple[tuple[str, str], ...]:
    return (("source", label_text(str(source))),)


def _source_families(rows: Sequence[Row]) -> tuple[Metric, Metric]:
    states = {_source_labels(row["source"]): str(row["state"]) for row in rows}
    up = [(labels, float(state in _DELIVERING)) for labels, state in states.items()]
    now = [((*labels, ("state", state)), 1.0) for labels, state in states.items()]
    return _metric(families.SOURCE_UP, up), _metric(families.SOURCE_STATE, now)
