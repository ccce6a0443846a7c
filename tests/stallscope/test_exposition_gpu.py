from __future__ import annotations

import math

import pyarrow as pa
import pytest

from stallscope import schema
from stallscope.exposition import otel
from stallscope.exposition.families import column_families
from stallscope.exposition.latest import Row
from tests.stallscope.exposed import SECOND, Shown

_A = {"gpu": "0", "uuid": "GPU-aaaa"}
_B = {"gpu": "1", "uuid": "GPU-bbbb"}
_BYTES = "stallscope_pcie_bytes_total"
_RATE = "stallscope_pcie_throughput_bytes_per_second"
_COUNTED = {"device": 3, "method": "gpm_cumulative"}


def test_the_first_gpu_has_the_index_zero() -> None:
    shown = Shown()
    shown.see("gpu_state", {"device": 3, "power_watts": 300.0}, {"device": 4, "power_watts": 1.0})
    assert shown.values("stallscope_gpu_power_watts") == {
        frozenset(_A.items()): 300,
        frozenset(_B.items()): 1,
    }


def test_a_gpu_whose_index_is_not_known_has_its_uuid_alone() -> None:
    shown = Shown()
    shown.facts["device", 3] = {"name": "GPU-aaaa", "gpu_index": None}
    shown.see("gpu_state", {"device": 3, "power_watts": 300.0})
    assert shown.value("stallscope_gpu_power_watts", uuid="GPU-aaaa") == 300


def test_bytes_add_up_per_direction_and_gpu() -> None:
    shown = Shown()
    for _ in range(3):
        shown.see(
            "gpu_link",
            {**_COUNTED, "rx_bytes": 700, "tx_bytes": 20},
            {**_COUNTED, "device": 4, "rx_bytes": 1, "tx_bytes": 0},
        )
    method = {"source": "gpm_cumulative"}
    assert shown.value(_BYTES, **_A, **method, direction="rx") == 2_100
    assert shown.value(_BYTES, **_A, **method, direction="tx") == 60
    assert shown.value(_BYTES, **_B, **method, direction="rx") == 3
    assert shown.value(_BYTES, **_B, **method, direction="tx") == 0
    assert f"# TYPE {_BYTES} counter" in shown.text()


def test_every_row_of_a_batch_counts_and_not_the_latest_alone() -> None:
    shown = Shown()
    now_us = shown.clock.mono_us
    rows: list[Row] = [{**_COUNTED, "rx_bytes": 5, "mono_us": now_us - age} for age in (2, 1, 0)]
    shown.page.observe("gpu_link", pa.RecordBatch.from_pylist(rows), SECOND)
    assert shown.value(_BYTES, **_A, source="gpm_cumulative", direction="rx") == 15


def test_replays_add_up() -> None:
    shown = Shown()
    for replays in (2, 0, 5):
        shown.see("gpu_state", {"device": 3, "replays": replays})
    assert shown.value("stallscope_pcie_replays_total", **_A) == 7


def test_looking_twice_counts_once() -> None:
    shown = Shown()
    shown.see("gpu_link", {**_COUNTED, "rx_bytes": 700})
    assert shown.text() == shown.text()


def test_a_method_without_a_counter_has_a_rate_and_no_bytes() -> None:
    shown = Shown()
    rates = {"rx_window_mean_bytes_per_second": 9e9, "tx_window_mean_bytes_per_second": 4e8}
    shown.see("gpu_link", {"device": 3, "method": "throughput", "rx_bytes": None, **rates})
    assert shown.values(_BYTES) == {}
    assert shown.value(_RATE, **_A, source="throughput", direction="rx") == 9e9
    assert shown.value(_RATE, **_A, source="throughput", direction="tx") == 4e8


def test_a_counter_ends_with_its_method_and_goes_on_when_that_comes_back() -> None:
    shown = Shown()
    shown.see("gpu_link", {**_COUNTED, "rx_bytes": 700})
    shown.see("gpu_link", {"device": 3, "method": "field_counter", "rx_bytes": 4})
    assert shown.values(_BYTES) == {
        frozenset({**_A, "source": "field_counter", "direction": "rx"}.items()): 4
    }
    shown.see("gpu_link", {**_COUNTED, "rx_bytes": 1})
    assert shown.values(_BYTES) == {
        frozenset({**_A, "source": "gpm_cumulative", "direction": "rx"}.items()): 701
    }


def test_a_lost_gpu_leaves_no_series_but_its_state_and_its_neighbour_stays() -> None:
    shown = Shown()
    good = {
        **_COUNTED,
        "state": "ok",
        "window_us": SECOND,
        "rx_bytes": 700,
        "rx_window_mean_bytes_per_second": 700.0,
        "rx_saturation_ratio": 0.5,
        "rx_raw_ratio": 0.4,
        "rx_ceiling_bytes_per_second": 1_400.0,
        "coverage_ratio": 1.0,
        "link_downtrained": False,
        "call_us": 30,
    }
    shown.see("gpu_link", good, {**good, "device": 4})
    shown.see("gpu_link", {"device": 3, "state": "gpu_lost", "reason": "it fell off the bus"})
    samples = [sample for family in shown.page.collect() for sample in family.samples]
    lost = [sample for sample in samples if sample.labels.get("uuid") == "GPU-aaaa"]
    assert [(sample.name, sample.labels, sample.value) for sample in lost] == [
        ("stallscope_pcie_link_state", {**_A, "state": "gpu_lost"}, 1)
    ]
    shown_of_other = {s.name for s in samples if s.labels.get("uuid") == "GPU-bbbb"}
    assert len(shown_of_other) == 10


def test_a_gpu_that_sends_no_rows_ends_and_its_counter_goes_on_later() -> None:
    shown = Shown()
    shown.see("gpu_link", {**_COUNTED, "state": "ok", "rx_bytes": 700})
    shown.clock.mono_us += 3 * SECOND + 1
    assert "GPU-aaaa" not in shown.text()
    shown.see("gpu_link", {**_COUNTED, "state": "ok", "rx_bytes": 1})
    assert shown.value(_BYTES, **_A, source="gpm_cumulative", direction="rx") == 701


@pytest.mark.parametrize(("stored", "value"), [(True, 1), (False, 0), (None, None)])
def test_downtrained_is_one_or_zero_and_absent_while_idle(
    *, stored: bool | None, value: int | None
) -> None:
    shown = Shown()
    shown.see("gpu_link", {"device": 3, "link_downtrained": stored})
    assert shown.value("stallscope_pcie_link_downtrained", **_A) == value
    assert "True" not in shown.text()
    assert "False" not in shown.text()


def test_each_direction_says_where_its_own_ceiling_comes_from() -> None:
    shown = Shown()
    ceilings = {"rx_ceiling_bytes_per_second": 52e9, "tx_ceiling_bytes_per_second": 55e9}
    kinds = {"rx_ceiling_kind": "calibrated", "tx_ceiling_kind": "default"}
    ratios = {"rx_saturation_ratio": 0.5, "tx_saturation_ratio": 0.25}
    shown.see("gpu_link", {"device": 3, **ceilings, **kinds, **ratios})
    for name, rx, tx in (
        ("stallscope_pcie_link_ceiling_bytes_per_second", 52e9, 55e9),
        ("stallscope_pcie_saturation_ratio", 0.5, 0.25),
    ):
        assert shown.values(name) == {
            frozenset({**_A, "direction": "rx", "kind": "calibrated"}.items()): rx,
            frozenset({**_A, "direction": "tx", "kind": "default"}.items()): tx,
        }


def test_a_rate_has_its_window_and_its_coverage_beside_it() -> None:
    shown = Shown()
    shown.see("gpu_link", {**_COUNTED, "window_us": 1_000_250, "coverage_ratio": 0.5})
    method = {"source": "gpm_cumulative"}
    assert shown.value("stallscope_pcie_window_seconds", **_A, **method) == 1.00025
    assert shown.value("stallscope_pcie_coverage_ratio", **_A, **method) == 0.5


def test_the_raw_ratio_may_exceed_what_saturation_is_cut_at() -> None:
    shown = Shown()
    shown.see("gpu_link", {"device": 3, "rx_raw_ratio": 1.05, "tx_raw_ratio": math.nan})
    assert shown.values("stallscope_pcie_raw_ratio") == {
        frozenset({**_A, "direction": "rx"}.items()): 1.05
    }


def test_a_shared_uplink_is_named_by_its_bridge() -> None:
    shown = Shown()
    shown.see("pcie_uplink", {"device": 5, "rx_saturation_ratio": 0.9, "tx_saturation_ratio": 0.1})
    assert shown.values("stallscope_pcie_uplink_saturation_ratio") == {
        frozenset({"bridge": "0000:80:01.0", "direction": "rx"}.items()): 0.9,
        frozenset({"bridge": "0000:80:01.0", "direction": "tx"}.items()): 0.1,
    }


def test_both_gpu_sources_tell_what_their_calls_cost() -> None:
    shown = Shown()
    shown.see("gpu_link", {"device": 3, "call_us": 250})
    shown.see("gpu_state", {"device": 3, "call_us": 40})
    assert shown.value("stallscope_gpu_call_seconds", **_A, source="gpu_link") == 0.00025
    assert shown.value("stallscope_gpu_call_seconds", **_A, source="gpu_state") == 0.00004
    assert shown.text().count("# TYPE stallscope_gpu_call_seconds gauge") == 1


def test_megahertz_become_hertz() -> None:
    shown = Shown()
    shown.see("gpu_state", {"device": 3, "sm_clock_mhz": 1_980})
    assert shown.value("stallscope_gpu_sm_clock_hertz", **_A) == 1.98e9


# To the GPU = host to device = load; the column, our label and OpenTelemetry's attribute.
_DIRECTIONS = [("rx", "H2D", "receive"), ("tx", "D2H", "transmit")]


@pytest.mark.parametrize(("direction", "copy", "attribute"), _DIRECTIONS)
def test_a_direction_is_the_same_in_schema_page_and_opentelemetry(
    direction: str, copy: str, attribute: str
) -> None:
    other = "D2H" if copy == "H2D" else "H2D"
    feeds = [
        feed
        for family in column_families()
        for feed in family.feeds
        if feed.column.name.startswith(f"{direction}_")
    ]
    assert len({feed.metric.name for feed in feeds}) == 6
    for feed in feeds:
        assert ("direction", direction) in feed.metric.labels
        assert other not in feed.column.meaning
    names = [name for name in otel.otel_names() if name.feed in feeds]
    assert {name.name for name in names} == {"hw.gpu.io", "hw.gpu.pcie.throughput"}
    for name in names:
        assert dict(name.fixed)["network.io.direction"] == attribute


def test_meanings_say_which_way_bytes_and_rates_go() -> None:
    link = schema.table("gpu_link")
    assert "rx = to the GPU (H2D, load), tx = from the GPU (D2H, store)" in link.meaning
    for direction, copy, _ in _DIRECTIONS:
        for quantity in ("window_mean_bytes_per_second", "saturation_ratio", "raw_ratio"):
            assert copy in link.column(f"{direction}_{quantity}").meaning
    assert "received by the GPU" in link.column("rx_bytes").meaning
    assert "sent by the GPU" in link.column("tx_bytes").meaning


def test_every_opentelemetry_name_says_which_gpu() -> None:
    names = list(otel.otel_names())
    declared = [
        column.metric.otel
        for table in (schema.table("gpu_link"), schema.table("gpu_state"))
        for column in table.columns
        if column.metric is not None and column.metric.otel
    ]
    assert [name.name for name in names] == declared
    for name in names:
        assert ("hw.type", "gpu") in name.fixed
        assert ("hw.id", "uuid") in name.carried


def test_a_name_that_no_convention_has_is_marked() -> None:
    """hw.gpu.io is OpenTelemetry's; a rate has no name there."""
    text = otel.render_names()
    assert "| hw.gpu.pcie.throughput (no convention) |" in text
    assert '| hw.gpu.io | hw.type="gpu", network.io.direction="receive", ' in text
