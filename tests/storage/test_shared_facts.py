from __future__ import annotations

from pathlib import Path

import pytest

from stallscope.clock import SystemClock
from stallscope.storage.direct import seal_directly
from stallscope.storage.layout import Layout, create_lake
from stallscope.storage.shared_facts import SharedFacts
from stallscope.storage.writer import Writer, WriterOptions

_TABLE = "link_ceiling"


def _row(wall_us: int, rate: float, kind: str = "calibrated") -> dict[str, object]:
    place = {"device": 1, "direction": "rx", "link_generation": 5, "link_width": 16}
    return {"wall_us": wall_us, "kind": kind, "bytes_per_second": rate, **place}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return create_lake(tmp_path / "lake", "host-1")


def _seal(layout: Layout, *rows: dict[str, object]) -> None:
    seal_directly(layout.root, {_TABLE: rows}, sync=False)


def _rates(facts: SharedFacts) -> list[object]:
    return [row["bytes_per_second"] for row in facts.rows()]


def test_an_empty_lake_has_no_facts(layout: Layout) -> None:
    assert _rates(SharedFacts(layout, _TABLE)) == []


def test_rows_of_every_writer_are_there_oldest_first(layout: Layout) -> None:
    options = WriterOptions(sync=False, housekeeping_s=0)
    writer = Writer.open(layout.root, "collect", clock=SystemClock(), options=options)
    writer.append(_TABLE, [_row(20, 2e9, "learned")])
    writer.seal()
    _seal(layout, _row(30, 3e9), _row(10, 1e9))
    assert _rates(SharedFacts(layout, _TABLE)) == [1e9, 2e9, 3e9]
    writer.close()


def test_what_a_command_seals_later_is_seen(layout: Layout) -> None:
    facts = SharedFacts(layout, _TABLE)
    assert _rates(facts) == []
    _seal(layout, _row(10, 1e9))
    assert _rates(facts) == [1e9]
    _seal(layout, _row(20, 2e9))
    assert _rates(facts) == [1e9, 2e9]


def test_without_news_no_segment_is_read_again(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    _seal(layout, _row(10, 1e9))
    facts = SharedFacts(layout, _TABLE)
    before = facts.rows()

    def refuse(*_: object) -> None:
        raise AssertionError("a segment was read")

    monkeypatch.setattr("stallscope.storage.shared_facts.read_batches", refuse)
    assert facts.rows() is before


def test_a_damaged_segment_costs_the_news_and_not_what_is_known(
    layout: Layout, caplog: pytest.LogCaptureFixture
) -> None:
    _seal(layout, _row(10, 1e9))
    facts = SharedFacts(layout, _TABLE)
    assert _rates(facts) == [1e9]
    _seal(layout, _row(20, 2e9))
    newest = max((layout.segments / _TABLE).iterdir())
    newest.write_bytes(b"no parquet")
    assert _rates(facts) == [1e9]
    assert "link_ceiling cannot be read" in caplog.text


def test_other_tables_are_none_of_its_business(layout: Layout) -> None:
    note = {"wall_us": 5, "text": "calibrated today"}
    seal_directly(layout.root, {"note": [note], _TABLE: [_row(10, 1e9)]}, sync=False)
    assert _rates(SharedFacts(layout, _TABLE)) == [1e9]
