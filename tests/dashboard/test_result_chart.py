from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa

from dashboard.result_chart import drawable, result_figure

START = datetime(2026, 11, 18, 2)  # noqa: DTZ001 - results hold UTC without a zone
TIMES = [START + timedelta(seconds=10 * i) for i in range(5)]


def test_one_panel_per_number_and_one_trace_per_name() -> None:
    table = pa.table(
        {
            "time": pa.array([*TIMES, *TIMES], pa.timestamp("us")),
            "engine": pa.array([1] * 5 + [2] * 5, pa.uint16()),
            "tier": ["device"] * 10,
            "flag": pa.array([None] * 10, pa.string()),
            "hit": [float(i) for i in range(10)],
            "queries": list(range(10)),
        }
    )
    found = drawable(table)
    assert found is not None
    data = result_figure(table, found)
    assert [panel["title"] for panel in data["panels"]] == ["hit", "queries"]
    first = data["panels"][0]
    assert [series["label"] for series in first["series"]] == ["1 device", "2 device"]
    assert first["x"] == {"start": START.timestamp() + _offset(), "step": 10.0, "count": 5}
    assert first["series"][1]["high"] == [5.0, 6.0, 7.0, 8.0, 9.0]


def _offset() -> float:
    """Return what a naive time is off by on a host that is not in UTC."""
    return START.astimezone().utcoffset().total_seconds()  # type: ignore[union-attr]


def test_microseconds_are_a_time_too_and_the_peak_of_a_window_stays() -> None:
    wall = [1_000_000 * i for i in range(3_600 * 2)]
    values = [0.0] * len(wall)
    values[1_234] = 99.0
    table = pa.table({"wall_us": wall, "x": values})
    found = drawable(table)
    assert found is not None
    panel = result_figure(table, found)["panels"][0]
    assert panel["x"]["count"] <= 701
    assert max(panel["series"][0]["high"]) == 99.0


def test_without_a_time_or_numbers_there_is_nothing_to_draw() -> None:
    assert drawable(pa.table({"x": [1.0, 2.0]})) is None
    assert drawable(pa.table({"time": pa.array(TIMES, pa.timestamp("us"))})) is None
    once = pa.table({"time": pa.array(TIMES[:1], pa.timestamp("us")), "x": [1.0]})
    assert drawable(once) is None
    missing = pa.table({"time": pa.array([TIMES[0], None], pa.timestamp("us")), "x": [1.0, 2.0]})
    assert drawable(missing) is None
