"""The parser against the official one, on whatever that one can write or read."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterable
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families as read_text

from collector.edges.prompage import Page
from collector.edges.promtext import Parser

write_openmetrics: Callable[[CollectorRegistry], bytes] = openmetrics_exposition.generate_latest
read_openmetrics: Callable[[str], Iterable[Metric]] = (
    openmetrics_parser.text_string_to_metric_families
)
Series: TypeAlias = dict[tuple[str, frozenset[tuple[str, str]]], float | None]

_FIRST = string.ascii_letters + "_"
NAMES = st.builds(
    lambda first, rest: f"m{first}{rest}",
    st.sampled_from(_FIRST + ":"),
    st.text(_FIRST + ":" + string.digits, max_size=8),
).filter(
    lambda name: not name.endswith(("_created", "_info", "_total", "_sum", "_count", "_bucket"))
)
LABEL_NAMES = st.builds(
    lambda first, rest: f"k{first}{rest}",
    st.sampled_from(_FIRST),
    st.text(_FIRST + string.digits, max_size=6),
)
LABEL_VALUES = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.text('\\"n,={}# \n\t', max_size=12),
)
LABELS = st.dictionaries(LABEL_NAMES, LABEL_VALUES, max_size=4)
NUMBERS = st.one_of(st.floats(), st.integers(-(10**15), 10**15).map(float))


def ours(page: Page) -> Series:
    """Return a page as the official parser's samples can be put, births included."""
    values = {(one.name, frozenset(one.labels)): value for one, value in page.values.items()}
    births = {
        (f"{one.name}_created", frozenset(one.labels)): value for one, value in page.births.items()
    }
    return values | births


def official(families: Iterable[Metric]) -> Series:
    return {
        (sample.name, frozenset(sample.labels.items())): None
        if math.isnan(sample.value)
        else float(sample.value)
        for family in families
        for sample in family.samples
    }


def fresh() -> Parser:
    return Parser(prefixes=(), namespaces=())


def fill(
    registry: CollectorRegistry, name: str, label_sets: list[dict[str, str]], numbers: list[float]
) -> None:
    """Add a gauge, a counter and a histogram with these labels to a registry."""
    names = sorted({label for labels in label_sets for label in labels})
    gauge = Gauge(f"{name}g", "a gauge\nof two \\ lines", names, registry=registry)
    counter = Counter(f"{name}c", 'a "counter"', names, registry=registry)
    histogram = Histogram(
        f"{name}h", "a histogram", names, buckets=(0.5, 1, 1e6), registry=registry
    )
    for labels in label_sets:
        full = [labels.get(label, "") for label in names]
        for number in numbers:
            (gauge.labels(*full) if names else gauge).set(number)
            step = 1.0 if math.isnan(number) else abs(number)
            (counter.labels(*full) if names else counter).inc(step)
            (histogram.labels(*full) if names else histogram).observe(number)


@given(NAMES, st.lists(LABELS, min_size=1, max_size=3), st.lists(NUMBERS, min_size=1, max_size=3))
def test_what_the_official_client_writes_is_read_as_the_official_parser_does(
    name: str, label_sets: list[dict[str, str]], numbers: list[float]
) -> None:
    registry = CollectorRegistry()
    fill(registry, name, label_sets, numbers)
    text = generate_latest(registry)
    page = fresh().parse(text, "text/plain; version=0.0.4")
    assert page.rejected == 0, page.rejects
    assert not page.partial
    assert ours(page) == official(read_text(text.decode()))


@given(
    NAMES.filter(lambda name: ":" not in name),
    st.lists(LABELS, min_size=1, max_size=3),
    st.lists(NUMBERS.filter(math.isfinite), min_size=1, max_size=3),
)
def test_the_same_in_openmetrics(
    name: str, label_sets: list[dict[str, str]], numbers: list[float]
) -> None:
    registry = CollectorRegistry()
    fill(registry, name, label_sets, [abs(number) for number in numbers])
    text = write_openmetrics(registry)
    page = fresh().parse(text, "application/openmetrics-text; version=1.0.0")
    assert page.rejected == 0, page.rejects
    assert not page.partial
    assert ours(page) == official(read_openmetrics(text.decode()))


@given(NAMES, LABELS, NUMBERS)
def test_labels_survive_writing_and_reading_again(
    name: str, labels: dict[str, str], number: float
) -> None:
    registry = CollectorRegistry()
    fill(registry, name, [labels], [number])
    first = fresh().parse(generate_latest(registry), "text/plain")
    again = CollectorRegistry()
    for series in first.values:
        if series.name == f"{name}g":
            keys = [label for label, _ in series.labels]
            gauge = Gauge(f"{name}g", "", keys, registry=again)
            (gauge.labels(*(value for _, value in series.labels)) if keys else gauge).set(number)
    second = fresh().parse(generate_latest(again), "text/plain")
    here = {one.labels for one in first.values if one.name == f"{name}g"}
    assert {one.labels for one in second.values} == here


@given(st.lists(st.tuples(NAMES, LABELS, NUMBERS), max_size=8), st.lists(NUMBERS, max_size=4))
def test_a_parser_that_knows_a_series_reads_like_one_that_does_not(
    samples: list[tuple[str, dict[str, str], float]], others: list[float]
) -> None:
    parser = fresh()
    for numbers in ([number for *_, number in samples], others * len(samples)):
        registry = CollectorRegistry()
        for place, ((name, labels, _), number) in enumerate(zip(samples, numbers, strict=False)):
            fill(registry, f"{name}{place}", [labels], [number])
        text = generate_latest(registry)
        assert ours(parser.parse(text, "")) == ours(fresh().parse(text, ""))


@given(st.binary(max_size=300), st.sampled_from(["", "text/plain", "application/openmetrics-text"]))
def test_no_input_breaks_the_parser(body: bytes, content_type: str) -> None:
    page = Parser().parse(body, content_type)
    lines = body.count(b"\n") + 1
    assert page.samples + page.rejected <= lines
    assert len(page.values) + len(page.births) + page.duplicates == page.samples


@given(
    st.lists(
        st.sampled_from(
            ['m{a="1"} 1', "m 2", "x_created 3", "# TYPE m gauge", "", "m{ 1", "m 1 5"]
        ),
        max_size=12,
    ),
    st.data(),
)
def test_a_page_cut_anywhere_holds_no_line_that_the_whole_page_lacks(
    lines: list[str], data: st.DataObject
) -> None:
    body = "".join(f"{line}\n" for line in lines).encode()
    cut = body[: data.draw(st.integers(0, len(body)))]
    page = Parser().parse(cut, "text/plain")
    whole = cut.decode().split("\n")[:-1]
    again = Parser().parse("".join(f"{line}\n" for line in whole).encode(), "text/plain")
    assert ours(page) == ours(again)
    assert page.partial == (not cut.endswith(b"\n") and bool(cut))
