"""Names out to OpenTelemetry: the conventions' where there is one, else ours, translatable back."""

from __future__ import annotations

from collections import Counter

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from stallscope.exposition.families import DERIVED, column_families
from stallscope.exposition.otel_series import Instrument, Point, instruments, points

# What a translator to Prometheus appends: prometheus/otlptranslator, units and types.
_SUFFIXES = {
    "By/s": "_bytes_per_second",
    "s": "_seconds",
    "By": "_bytes",
    "Cel": "_celsius",
    "W": "_watts",
    "Hz": "_hertz",
    "1": "_ratio",
    "": "",
}


def _translated(instrument: Instrument) -> str:
    """Return the name that a Prometheus server gives an instrument that arrives by OTLP."""
    name = instrument.name.replace(".", "_") + _SUFFIXES[instrument.unit]
    return name + ("_total" if instrument.kind == "counter" else "")


def test_names_of_ours_come_back_as_ours() -> None:
    ours = {family.name for family in (*column_families(), *DERIVED)}
    own = [one for one in instruments() if one.name.startswith("stallscope.")]
    assert len(own) > 20
    assert {_translated(one) for one in own} <= ours


def test_every_series_has_exactly_one_instrument() -> None:
    names = Counter(one.name for one in instruments())
    assert set(names.values()) == {1}
    assert "hw.gpu.io" in names
    # All series of these have a name in the conventions, so ours is not used for any.
    assert not {"stallscope.pcie", "stallscope.gpu_power"} & set(names)


@pytest.mark.parametrize(
    ("name", "kind", "unit"),
    [
        ("hw.gpu.io", "counter", "By"),
        ("hw.gpu.memory.usage", "sum", "By"),
        ("hw.gpu.memory.limit", "sum", "By"),
        ("hw.gpu.utilization", "gauge", "1"),
        ("hw.power", "gauge", "W"),
        ("hw.gpu.pcie.throughput", "gauge", "By/s"),
        ("stallscope.gpu_memory", "gauge", "By"),
        ("stallscope.nvme_latency_mean", "gauge", "s"),
        ("stallscope.collector_cpu", "counter", "s"),
        ("stallscope.nvme_io_in_flight", "gauge", ""),
    ],
)
def test_kinds_and_units(name: str, kind: str, unit: str) -> None:
    (found,) = [one for one in instruments() if one.name == name]
    assert (found.kind, found.unit) == (kind, unit)
    assert found.meaning.endswith(".")


def test_directions_and_states_are_told_apart() -> None:
    moved = CounterMetricFamily("stallscope_pcie_bytes_total", "x")
    name = "stallscope_pcie_bytes_total"
    moved.add_sample(name, {"gpu": "3", "uuid": "GPU-1", "source": "m", "direction": "rx"}, 9)
    moved.add_sample(name, {"gpu": "3", "uuid": "GPU-1", "source": "m", "direction": "tx"}, 5)
    memory = GaugeMetricFamily("stallscope_gpu_memory_bytes", "x")
    memory.add_sample(memory.name, {"uuid": "GPU-1", "state": "used"}, 70)
    memory.add_sample(memory.name, {"uuid": "GPU-1", "state": "reserved"}, 2)
    found = points([moved, memory])
    common = {
        "hw.type": "gpu",
        "hw.id": "GPU-1",
        "stallscope.gpu.index": "3",
        "stallscope.method": "m",
    }
    assert found == {
        "hw.gpu.io": [
            Point(9, {**common, "network.io.direction": "receive"}),
            Point(5, {**common, "network.io.direction": "transmit"}),
        ],
        "hw.gpu.memory.usage": [Point(70, {"hw.type": "gpu", "hw.id": "GPU-1"})],
        "stallscope.gpu_memory": [Point(2, {"uuid": "GPU-1", "state": "reserved"})],
    }


def test_what_only_prometheus_has_is_left_out() -> None:
    histogram = HistogramMetricFamily("stallscope_itl_seconds", "x")
    histogram.add_metric([], [("+Inf", 3)], 1)
    assert points([histogram]) == {}
