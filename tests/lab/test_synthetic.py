from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

from lab.synthetic.day import itl_rows
from lab.synthetic.engine_page import EngineState
from lab.synthetic.gauges import disk_rows, link_rows, pressure_rows, state_rows, value_cells
from lab.synthetic.host_tree import HostTree
from lab.synthetic.lake_maker import LakeMaker
from lab.synthetic.tokens import Tape, make_tape, usual_running
from stallscope.storage.reader import Lake
from stallscope.storage.rows import to_batch

_T0 = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def tape() -> Tape:
    return make_tape(2_000, 5, [16, 64], seed=3)


def test_tape_has_the_rate_it_was_asked_for_in_order_of_time(tape: Tape) -> None:
    assert len(tape.offset_us) == pytest.approx(2_000 * 5, rel=0.05)
    assert np.all(np.diff(tape.offset_us) >= 0)
    assert set(tape.engine.tolist()) == {1, 2}


def test_each_gap_is_the_time_since_the_chunk_before(tape: Tape) -> None:
    rows = tape.rows(0, len(tape.offset_us), _T0).to_pylist()
    last: dict[int, tuple[int, int]] = {}
    for row in rows:
        before = last.get(row["request"])
        if row["itl_us"] is None:
            assert row["chunk_index"] == 0
        elif before is not None:
            assert row["itl_us"] == row["wall_us"] - before[0]
            assert row["chunk_index"] == before[1] + 1
        last[row["request"]] = (row["wall_us"], row["chunk_index"])
    assert len(last) > 80, "requests come and go"


def test_running_requests_stay_within_their_range() -> None:
    assert all(16 <= count <= 256 for count in usual_running(200))


def test_gauge_rows_fit_the_schema_and_have_no_mean_without_io() -> None:
    dice = np.random.default_rng(1)
    walls = _T0 + np.arange(2_000) * 100_000
    for name, rows in (
        ("block_device", disk_rows(dice, walls, 0, 100_000)),
        ("host_pressure", pressure_rows(dice, walls, 100_000)),
        ("gpu_link", link_rows(dice, walls, 1, 1_000_000)),
        ("gpu_state", state_rows(dice, walls, 1, 1_000_000)),
    ):
        assert to_batch(name, rows).num_rows == 2_000
    disks = disk_rows(dice, walls, 0, 100_000).to_pylist()
    idle = [row for row in disks if row["reads"] == 0]
    assert 0 < len(idle) < 2_000
    assert all(row["read_await_mean_us"] is None for row in idle)


def test_samples_are_values_and_not_identities_nor_nulls() -> None:
    row = {"wall_us": _T0, "mono_us": 1, "device": 1, "window_us": 9, "io_stuck_candidate": False}
    rows = to_batch("block_device", [{**row, "reads": 3, "queue_mean": 0.5}, {**row, "reads": 4}])
    assert value_cells("block_device", rows) == 3


def test_engine_page_suits_the_official_parser_and_only_rises() -> None:
    state = EngineState()
    pages = [
        {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(state.page())
            for sample in family.samples
        }
        for _ in range(3)
    ]
    assert 420 <= len(pages[0]) <= 440
    for before, after in pairwise(pages):
        totals = [
            k for k in before if k[0].startswith("vllm:") and k[0].endswith(("_total", "_bucket"))
        ]
        assert len(totals) > 300
        assert all(after[key] >= before[key] for key in totals)


def test_host_tree_moves_and_never_falls(tmp_path: Path) -> None:
    with HostTree(tmp_path) as tree:
        first = second = _sectors_read(tree.proc)
        give_up = time.monotonic() + 10
        while second == first and time.monotonic() < give_up:
            time.sleep(0.02)
            second = _sectors_read(tree.proc)
    assert len(first) == 10
    assert second != first
    assert all(b >= a for a, b in zip(first, second, strict=True))


def _sectors_read(proc: Path) -> list[int]:
    lines = (proc / "diskstats").read_text(encoding="ascii").splitlines()
    return [int(line.split()[5]) for line in lines]


def test_lake_maker_makes_a_lake_that_our_reader_reads(tmp_path: Path) -> None:
    walls = _T0 + np.arange(10) * 60_000_000
    rows = itl_rows(np.random.default_rng(1), "itl_60s", walls, 60)
    with LakeMaker(tmp_path / "lake") as maker:
        entry = maker.add("itl_60s", rows)
    assert entry.rows == rows.num_rows
    with Lake(tmp_path / "lake").connect(tables=["itl_60s"]) as connection:
        found = connection.execute(
            "SELECT count(*), sum(observations)::BIGINT, count(DISTINCT engine) FROM itl_60s"
        ).fetchall()
    total = pa.compute.sum(rows.column("observations")).as_py()
    assert found == [(rows.num_rows, total, 8)]
    assert total == pytest.approx(8 * 10 * 60 * 2_500, rel=0.4)
