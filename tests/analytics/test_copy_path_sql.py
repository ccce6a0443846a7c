"""Figures of the copy path: what is added up, what is newest, and what stays unknown."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.analytics import memory_lake
from tests.analytics.memory_lake import S

lake_of = partial(
    memory_lake.lake_of,
    others=("gpu_link", "gpu_link_1m", "pcie_uplink", "link_ceiling", "topology",
            "topology_finding"),
    modules=("copy_path", "copy_path_minutes", "uplinks", "link_ceilings", "topology",
             "throttle_words"),
)  # fmt: skip


def link(second: float, rx: float | None, tx: float | None, **more: object) -> dict[str, object]:
    """Return a reading of a link that can do 100 bytes/s to the GPU and 50 from it."""
    return {
        "wall_us": round(second * S), "mono_us": 1, "device": 7, "window_us": S, "state": "ok",
        "rx_window_mean_bytes_per_second": None if rx is None else 100 * rx,
        "tx_window_mean_bytes_per_second": None if tx is None else 50 * tx,
        "rx_saturation_ratio": rx, "tx_saturation_ratio": tx,
        "rx_raw_ratio": None if rx is None else rx * 0.8,
        "tx_raw_ratio": None if tx is None else tx * 0.4,
        "rx_ceiling_bytes_per_second": 100.0, "tx_ceiling_bytes_per_second": 50.0,
        "rx_ceiling_kind": "calibrated", "tx_ceiling_kind": "default",
        "coverage_ratio": 1.0, "method": "field_counter", **more,
    }  # fmt: skip


def ask(rows: list[dict[str, object]], sql: str, table: str = "gpu_link") -> list[dict[str, Any]]:
    with lake_of({table: rows}) as lake:
        result = lake.execute(sql)
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def one(rows: list[dict[str, object]], direction: str = "rx", **more: object) -> dict[str, Any]:
    named = "".join(f", {name} := {value}" for name, value in more.items())
    (row,) = ask(
        rows, f"SELECT * FROM copy_path(0, 100000000{named}) WHERE direction = '{direction}'"
    )
    return row


def test_the_two_directions_are_never_mixed_up() -> None:
    rows = [link(1, 0.9, 0.2)]
    rx, tx = one(rows), one(rows, "tx")
    assert (rx["mean_bytes_per_second"], tx["mean_bytes_per_second"]) == (90, 10)
    assert (rx["ceiling_bytes_per_second"], tx["ceiling_bytes_per_second"]) == (100, 50)
    assert (rx["ceiling_kind"], tx["ceiling_kind"]) == ("calibrated", "default")
    assert rx["saturation_max_ratio"] == pytest.approx(0.9)
    assert tx["saturation_max_ratio"] == pytest.approx(0.2)
    assert rx["raw_max_ratio"] == pytest.approx(0.72)
    assert tx["raw_max_ratio"] == pytest.approx(0.08)


def test_a_long_reading_weighs_more_and_a_short_peak_is_kept() -> None:
    rows = [link(1, 0.9, 0.1), link(4, 0.1, 0.1, window_us=3 * S)]
    row = one(rows)
    assert row["mean_bytes_per_second"] == pytest.approx((90 + 3 * 10) / 4)
    assert row["saturation_mean_ratio"] == pytest.approx(0.3)
    assert row["max_bytes_per_second"] == 90
    assert (row["above_us"], row["measured_us"]) == (S, 4 * S)
    assert one(rows, limit_ratio=0.95)["above_us"] == 0


def test_what_was_not_measured_is_unknown_and_says_why() -> None:
    rows = [
        link(1, None, None, state="not_applicable", reason="NVLink-C2C", method=None,
             coverage_ratio=None)
    ]  # fmt: skip
    row = one(rows)
    unknown = (
        "mean_bytes_per_second", "max_bytes_per_second", "saturation_mean_ratio",
        "saturation_max_ratio", "above_us", "measured_us", "raw_max_ratio", "coverage_ratio",
        "both_busy_ratio", "downtrained_ratio", "method",
    )  # fmt: skip
    assert {row[name] for name in unknown} == {None}
    assert (row["readings"], row["measured"]) == (1, 0)
    assert (row["state"], row["reason"]) == ("not_applicable", "NVLink-C2C")


def test_dropped_readings_are_counted_and_weigh_nothing() -> None:
    rows = [link(1, 0.5, 0.5), link(2, None, None, reason="link changed"), link(3, 0.7, 0.5)]
    row = one(rows)
    assert (row["readings"], row["measured"], row["last_us"]) == (3, 2, 3 * S)
    assert row["mean_bytes_per_second"] == pytest.approx(60)
    assert row["reason"] == "link changed"


def test_the_newest_reading_counts_for_the_link_even_where_it_knows_nothing() -> None:
    rows = [
        link(1, 0.5, 0.5, link_generation=4, link_width=16, max_link_generation=4),
        link(2, 0.5, 0.5, link_generation=1, link_width=8, max_link_generation=4),
        link(3, 0.5, 0.5, link_generation=None, link_width=8, rx_ceiling_bytes_per_second=77.0),
    ]
    row = one(rows)
    assert (row["link_generation"], row["link_width"]) == (None, 8)
    assert row["ceiling_bytes_per_second"] == 77


def test_an_idle_link_is_not_judged_and_a_loaded_one_by_its_loaded_time() -> None:
    assert one([link(1, 0.0, 0.0, link_downtrained=None)])["downtrained_ratio"] is None
    rows = [
        link(1, 0.0, 0.0, link_downtrained=None),
        link(2, 0.5, 0.0, link_downtrained=True),
        link(5, 0.5, 0.0, link_downtrained=False, window_us=3 * S),
    ]
    assert one(rows)["downtrained_ratio"] == pytest.approx(0.25)


def test_coverage_and_both_busy_are_shares_of_the_measured_time() -> None:
    rows = [
        link(1, 0.7, 0.7, both_busy=True, coverage_ratio=0.02),
        link(2, 0.1, 0.1, both_busy=False, coverage_ratio=0.04),
        link(3, None, None, coverage_ratio=None),
    ]
    row = one(rows)
    assert row["both_busy_ratio"] == pytest.approx(0.5)
    assert row["coverage_ratio"] == pytest.approx(0.03)


def test_windows_and_gpus_stay_apart() -> None:
    rows = [link(1, 0.1, 0.1), link(11, 0.3, 0.1), link(11, 0.9, 0.1, device=8)]
    found = ask(
        rows,
        "SELECT wall_us, device, saturation_max_ratio AS most FROM copy_path(0, 100000000, "
        "step_us := 10000000) WHERE direction = 'rx' ORDER BY device, wall_us",
    )
    assert [(row["wall_us"], row["device"]) for row in found] == [(0, 7), (10 * S, 7), (10 * S, 8)]
    assert [round(row["most"], 2) for row in found] == [0.1, 0.3, 0.9]
    assert len(ask(rows, "SELECT * FROM copy_path(0, 100000000, only_device := 8)")) == 2


def minute(at: int, samples: int, mean: float, peak: float) -> dict[str, object]:
    return {
        "wall_us": at * 60 * S, "device": 7, "samples": samples,
        "rx_window_mean_bytes_per_second_avg": 100 * mean,
        "rx_window_mean_bytes_per_second_max": 100 * peak,
        "rx_saturation_ratio_max": peak, "tx_saturation_ratio_max": None,
    }  # fmt: skip


def test_minutes_weigh_by_readings_and_count_once() -> None:
    """A minute that was compacted in two parts has two rows."""
    rows = [minute(0, 40, 0.2, 0.4), minute(0, 20, 0.8, 0.95), minute(1, 60, 0.1, 0.2)]
    rx, tx = ask(rows, "SELECT * FROM copy_path_minutes(0, 900000000)", "gpu_link_1m")
    assert (rx["minutes"], rx["minutes_above"]) == (2, 1)
    assert rx["mean_bytes_per_second"] == pytest.approx((40 * 20 + 20 * 80 + 60 * 10) / 120)
    assert rx["saturation_max_ratio"] == pytest.approx(0.95)
    assert (tx["minutes"], tx["saturation_max_ratio"]) == (0, None)


def test_an_uplink_of_which_a_gpu_is_missing_has_no_sum() -> None:
    row: dict[str, object] = {
        "mono_us": 1,
        "device": 9,
        "window_us": S,
        "gpus": 2,
        "ceiling_bytes_per_second": 100.0,
    }
    rows: list[dict[str, object]] = [
        {**row, "wall_us": S, "gpus_measured": 2, "rx_window_mean_bytes_per_second": 90.0,
         "tx_window_mean_bytes_per_second": 30.0, "rx_saturation_ratio": 0.9,
         "tx_saturation_ratio": 0.3},
        {**row, "wall_us": 2 * S, "gpus_measured": 1, "reason": "1 of 2 GPUs measured"},
    ]  # fmt: skip
    rx, tx = ask(rows, "SELECT * FROM uplinks(0, 100000000)", "pcie_uplink")
    assert (rx["direction"], tx["direction"]) == ("rx", "tx")
    assert (rx["mean_bytes_per_second"], tx["mean_bytes_per_second"]) == (90, 30)
    assert (rx["readings"], rx["measured"], rx["gpus_measured"]) == (2, 1, 1)
    assert (rx["above_us"], rx["measured_us"], tx["above_us"]) == (S, S, 0)
    assert rx["reason"] == "1 of 2 GPUs measured"


def test_the_newest_ceiling_of_a_kind_counts() -> None:
    told = ((1, "learned", 20.0), (9, "learned", 22.0), (5, "calibrated", 24.6))
    rows: list[dict[str, object]] = [
        {"wall_us": wall, "device": 7, "direction": "rx", "kind": kind, "bytes_per_second": rate}
        for wall, kind, rate in told
    ]
    found = ask(rows, "SELECT kind, bytes_per_second AS rate FROM link_ceilings()", "link_ceiling")
    assert [tuple(row.values()) for row in found] == [("calibrated", 24.6), ("learned", 22.0)]


def node(look: int, address: str) -> dict[str, object]:
    return {"wall_us": look, "address": address, "kind": "gpu"}


def finding(look: int, subject: str) -> dict[str, object]:
    return {
        "wall_us": look, "rule": "narrow_link", "subject": subject, "severity": "warning",
        "text": f"{subject} is narrow.",
    }  # fmt: skip


def test_what_is_gone_and_what_was_cured_is_not_in_the_newest_look() -> None:
    rows = {
        "topology": [node(1, "a"), node(1, "b"), node(5, "a")],
        "topology_finding": [finding(1, "a")],
    }
    with lake_of(rows) as lake:
        assert lake.execute("SELECT address FROM topology_now").fetchall() == [("a",)]
        assert lake.execute("SELECT subject FROM topology_findings_now").fetchall() == []
    rows["topology_finding"].append(finding(5, "b"))
    with lake_of(rows) as lake:
        assert lake.execute("SELECT subject FROM topology_findings_now").fetchall() == [("b",)]


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (None, None), (0, "none"), (0x1, "idle"), (0x4, "power cap"), (0x8, "hardware slowdown"),
        (0x20, "thermal slowdown"), (0x40, "hardware thermal slowdown"), (0x400, "reliability"),
        (0x80 | 0x4, "power cap, hardware power brake"), (1 << 40, "bit 40"),
    ],
)  # fmt: skip
def test_reasons_for_slow_clocks_have_names(mask: int | None, words: str | None) -> None:
    """Bits as in nvml.h 13.5, nvmlClocksEventReason..."""
    with lake_of({}) as lake:
        assert lake.execute("SELECT throttle_words(?::BIGINT)", [mask]).fetchone() == (words,)
