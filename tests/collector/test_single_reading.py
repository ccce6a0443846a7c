from __future__ import annotations

import threading

import pyarrow as pa

from collector.names import NamesOfOneSource, PassingStore, StoredNames
from collector.single_reading import Named, SourceReport, lacks_window, read_each
from collector.source import NoData, Reading, SourceError, State
from tests.collector.stand_ins import SECOND, WALL, ManualClock, ScriptedSource, one_row, raising

_ROW = {"wall_us": WALL, "mono_us": SECOND, "scope": "system"}


def _read(*sources: ScriptedSource) -> list[SourceReport]:
    clock = ManualClock()
    names = StoredNames(PassingStore(), clock)
    return read_each([Named(source, NamesOfOneSource(names, clock)) for source in sources])


def _pressure(window_us: int | None) -> Reading:
    return Reading({"host_pressure": [{**_ROW, "window_us": window_us}]})


def test_a_first_row_without_a_window_is_read_again() -> None:
    source = ScriptedSource([lambda: _pressure(None), lambda: _pressure(9_000)])
    [report] = _read(source)
    assert (source.reads, source.closed) == (2, 1)
    assert [row["window_us"] for row in report.rows["host_pressure"]] == [9_000]
    assert (report.state, report.reason, report.hint) == (State.WORKING, "", "Nothing to do.")


def test_a_window_that_is_left_out_is_missing_too() -> None:
    assert lacks_window({"host_pressure": [_ROW]})
    assert not lacks_window({"host_pressure": [{**_ROW, "window_us": 1}]})
    assert lacks_window({"gpu_link": [{"device": 1}]})  # its window is a metric as well
    assert not lacks_window({"clock_event": [{"kind": "start"}]})


def test_a_source_with_rates_at_once_is_read_once() -> None:
    source = ScriptedSource([lambda: _pressure(5_000)])
    _read(source)
    assert source.reads == 1


def test_reports_stand_in_the_given_order_whatever_happens() -> None:
    reports = _read(
        ScriptedSource([raising(SourceError("HTTP 500"))], name="engine_metrics"),
        ScriptedSource([raising(KeyError("x"))], name="crash"),
        ScriptedSource([lambda: NoData(State.RESTRICTED, "no")], name="block_device"),
    )
    assert [(report.source, report.state) for report in reports] == [
        ("engine_metrics", State.FAILED),
        ("crash", State.FAILED),
        ("block_device", State.RESTRICTED),
    ]
    assert reports[0].reason == "HTTP 500"
    assert "KeyError" in reports[1].reason
    assert all(report.hint.endswith(".") for report in reports)
    assert all(report.rows == {} for report in reports)


def test_a_source_that_hangs_is_told_after_its_deadlines() -> None:
    release = threading.Event()

    def hang() -> Reading | NoData:
        release.wait(15)
        return one_row()

    hung = ScriptedSource([hang], name="hung", deadline_us=50_000)
    fine = ScriptedSource([lambda: _pressure(1)], name="fine")
    reports = _read(hung, fine)
    release.set()
    assert [report.state for report in reports] == [State.HUNG, State.WORKING]
    assert reports[0].reason == "it did not answer within 0.1 s"


def test_record_batches_come_out_as_rows() -> None:
    batch = pa.RecordBatch.from_pylist([{**_ROW, "window_us": 4}])
    [report] = _read(ScriptedSource([lambda: Reading({"host_pressure": batch})]))
    assert report.rows == {"host_pressure": [{**_ROW, "window_us": 4}]}


def test_ids_come_with_what_they_stand_for() -> None:
    clock = ManualClock()
    names = NamesOfOneSource(StoredNames(PassingStore(), clock), clock)

    def read() -> Reading:
        device = names.device({"kind": "disk", "name": "nvme0n1"})
        return Reading({"block_device": [{"device": device, "window_us": 1}]})

    [report] = read_each([Named(ScriptedSource([read]), names)])
    [device] = report.rows["device"]
    assert device["name"] == "nvme0n1"
    assert device["device"] == report.rows["block_device"][0]["device"]
