"""Written, read by the official parser and compared: nothing may change on the way."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as open_metrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from stallscope.exposition.page import label_text, render
from tests.stallscope.exposed import Shown, health

_OPEN_METRICS = "application/openmetrics-text;version=1.0.0"
_TEXT = st.text(min_size=1, max_size=20) | st.sampled_from(
    ['x"y,z="q', "C:\\", "a\\nb", "a\nb", "select {a,b} = 'x'", "}", "#", " ", "é", "\ud800", "\\"]
)
_NUMBER = st.none() | st.floats() | st.integers(0, 2**63)


@st.composite
def _pages(draw: st.DrawFn) -> Shown:
    shown = Shown()
    shown.facts = {
        ("engine", number): {"name": draw(_TEXT), "model": draw(_TEXT | st.just("")), "rank": ""}
        for number in range(3)
    }
    for device in draw(st.sets(st.integers(0, 5), max_size=3)):
        shown.facts["device", device] = {"name": draw(_TEXT)}
        row = {"read_await_mean_us": draw(_NUMBER), "queue_mean": draw(_NUMBER)}
        shown.see("block_device", {"device": device, **row})
        link = {"method": draw(st.none() | _TEXT), "state": draw(st.none() | _TEXT)}
        grown = {"rx_bytes": draw(st.none() | st.integers(0, 2**50)), "rx_raw_ratio": draw(_NUMBER)}
        down = {"link_downtrained": draw(st.none() | st.booleans())}
        for _ in range(draw(st.integers(1, 3))):
            shown.see("gpu_link", {"device": device, **link, **grown, **down})
    for engine in draw(st.sets(st.integers(0, 2), max_size=3)):
        total = draw(st.integers(0, 2**53))
        shown.see("engine_metrics", {"engine": engine, "prompt_tokens_total": total})
        bounds = sorted(draw(st.sets(st.integers(1, 10**8), min_size=1, max_size=5)))
        size = len(bounds) + 1
        counts = draw(st.lists(st.integers(0, 2**31), min_size=size, max_size=size))
        growth = {"bounds": bounds, "counts": counts, "sum": draw(st.integers(0, 10**12))}
        shown.see("engine_histogram", {"engine": engine, "family": "itl_us", **growth})
    for source in draw(st.sets(_TEXT, max_size=2)):
        shown.see("source_health", health(source, rejects=draw(st.integers(0, 2**32))))
    return shown


def _samples(families: Iterable[Metric]) -> Counter[tuple[object, ...]]:
    return Counter(
        (sample.name, frozenset(sample.labels.items()), sample.value)
        for family in families
        for sample in family.samples
    )


class _Read(Collector):
    """Families as a parser gave them."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


@given(_pages())
def test_the_plain_text_reads_back_as_it_was_meant(shown: Shown) -> None:
    text = shown.text()
    assert text.endswith("\n")
    assert _samples(text_string_to_metric_families(text)) == _samples(shown.page.collect())


@given(_pages())
def test_open_metrics_reads_back_as_it_was_meant(shown: Shown) -> None:
    text = shown.text(_OPEN_METRICS)
    read: Iterable[Metric] = open_metrics.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    assert _samples(read) == _samples(shown.page.collect())


@given(_pages())
def test_written_read_and_written_again_is_the_same_page(shown: Shown) -> None:
    text = shown.text()
    again = render(_Read(text_string_to_metric_families(text)), "")[1].decode()
    assert again == text


@given(_pages())
def test_no_series_stands_twice_and_no_value_is_not_a_number(shown: Shown) -> None:
    samples = [sample for family in shown.page.collect() for sample in family.samples]
    keys = Counter((sample.name, frozenset(sample.labels.items())) for sample in samples)
    assert set(keys.values()) <= {1}
    assert all(math.isfinite(sample.value) for sample in samples)


@given(st.text())
def test_a_label_is_valid_and_bounded(text: str) -> None:
    label = label_text(text)
    assert len(label) <= 200
    label.encode("utf-8")
    assert label_text(label) == label
