"""The page in OpenTelemetry's words: which instruments there are, and their values right now.

Series with a name in the conventions carry it (`stallscope.exposition.otel`). All others keep ours,
spelled so that the usual translation back to Prometheus gives what /metrics shows: a dot behind the
prefix, the unit apart, no ``_total`` (OpenTelemetry specification, "Prometheus and OpenMetrics
Compatibility"). Histograms are left out: an instrument that is only looked at cannot be one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from stallscope.exposition.families import DERIVED, Family, column_families
from stallscope.exposition.otel import OtelName, otel_names

_UNITS = (
    ("_bytes_per_second", "By/s"),
    ("_seconds", "s"),
    ("_bytes", "By"),
    ("_celsius", "Cel"),
    ("_watts", "W"),
    ("_hertz", "Hz"),
    ("_ratio", "1"),
)
"""Suffixes of our names with their units in UCUM, the longer ones first."""

COUNTER, GAUGE, SUM = "counter", "gauge", "sum"
"""A total that only grows; a value of the moment; one that adds up over entities."""

_SUMS = frozenset({"hw.gpu.memory.usage", "hw.gpu.memory.limit"})  # hw conventions v1.44


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric.

    Attributes:
        name: Its name.
        kind: ``counter``, ``gauge`` or ``sum``.
        unit: In UCUM; empty for a plain number.
        meaning: One sentence.
    """

    name: str
    kind: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Point:
    """One value of an instrument.

    Attributes:
        value: In the instrument's unit.
        attributes: What it is a value of.
    """

    value: float
    attributes: Mapping[str, str]


def instruments() -> tuple[Instrument, ...]:
    """Return every instrument, each name once."""
    made: dict[str, Instrument] = {}
    for family in (*column_families(), *DERIVED):
        if family.kind in {COUNTER, GAUGE}:
            for name in _names(family):
                made.setdefault(name, _instrument(name, family))
    return tuple(sorted(made.values(), key=lambda one: one.name))


def points(page: Iterable[Metric]) -> dict[str, list[Point]]:
    """Return the values of a page by the instrument's name.

    Args:
        page: Families as `stallscope.exposition.page.Page.collect` yields them.
    """
    found: dict[str, list[Point]] = {}
    for metric in page:
        for sample in metric.samples if metric.type in {COUNTER, GAUGE} else ():
            name, attributes = _translated(sample)
            found.setdefault(name, []).append(Point(sample.value, attributes))
    return found


def _translated(sample: Sample) -> tuple[str, dict[str, str]]:
    for otel in _by_own_name().get(sample.name, ()):
        labels = sample.labels
        if all(labels.get(label) == value for label, value in otel.feed.metric.labels):
            carried = {
                attribute: labels[label] for attribute, label in otel.carried if label in labels
            }
            return otel.name, {**dict(otel.fixed), **carried}
    return _own_name(sample.name), dict(sample.labels)


def _names(family: Family) -> Iterator[str]:
    """Yield the names that a family's series go by."""
    yield from (otel.name for otel in _by_own_name().get(family.name, ()))
    if not family.feeds or not all(feed.metric.otel for feed in family.feeds):
        yield _own_name(family.name)


@cache
def _by_own_name() -> Mapping[str, tuple[OtelName, ...]]:
    found: dict[str, tuple[OtelName, ...]] = {}
    for otel in otel_names():
        own = otel.feed.metric.name
        found[own] = (*found.get(own, ()), otel)
    return found


def _instrument(name: str, family: Family) -> Instrument:
    kind = SUM if name in _SUMS else family.kind
    return Instrument(name, kind, _split(family.name)[1], family.meaning)


def _own_name(name: str) -> str:
    return _split(name)[0].replace("_", ".", 1)


def _split(name: str) -> tuple[str, str]:
    """Return a name of ours without its unit, and the unit."""
    plain = name.removesuffix("_total")
    for suffix, unit in _UNITS:
        if plain.endswith(suffix):
            return plain.removesuffix(suffix), unit
    return plain, ""
