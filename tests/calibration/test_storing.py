"""What was measured lies in the lake under the GPU's own id, whoever gave it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collector.calibration.one_gpu import Calibrated, Outcome
from collector.calibration.rates import Measured
from collector.calibration.storing import ceiling_rows, find_device, store
from collector.link_capacity import LinkState
from collector.names import StoredNames
from stallscope.errors import LakeError
from stallscope.storage.layout import create_lake
from stallscope.storage.reader import Lake
from stallscope.storage.writer import Writer, WriterOptions
from tests.calibration.gpu_stand_ins import GPU, OTHER_GPU, RATES
from tests.storage.lake_rows import START_US, HandClock

PROC = Path("/proc")
DONE = Calibrated(
    GPU,
    Outcome.MEASURED,
    measured=Measured(RATES, "nvbandwidth v0.8"),
    state=LinkState(5, 16),
    wall_us=START_US,
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    create_lake(tmp_path / "lake")
    return tmp_path / "lake"


def _collector(lake: Path) -> Writer:
    options = WriterOptions(sync=False, housekeeping_s=0)
    return Writer.open(lake, "collect", clock=HandClock(), options=options)


def _ask(lake: Path, question: str) -> list[tuple[object, ...]]:
    with Lake(lake).connect() as connection:
        return connection.sql(question).fetchall()


def test_both_directions_are_stored_and_read_by_sql(lake: Path) -> None:
    store(lake, DONE, HandClock(), PROC)
    assert _ask(
        lake,
        "SELECT name, direction, link_ceiling.kind, bytes_per_second, together_bytes_per_second, "
        "link_generation, link_width, link_ceiling.driver, tool, link_ceiling.wall_us "
        "FROM link_ceiling JOIN device USING (device) ORDER BY direction",
    ) == [
        (GPU.uuid, "rx", "calibrated", 55.6e9, 51.8e9, 5, 16, "580.95.05", "nvbandwidth v0.8",
         START_US),
        (GPU.uuid, "tx", "calibrated", 57.3e9, 49.1e9, 5, 16, "580.95.05", "nvbandwidth v0.8",
         START_US),
    ]  # fmt: skip


def test_without_bidirectional_figures_the_column_is_null(lake: Path) -> None:
    alone = replace(RATES, rx_together=None, tx_together=None)
    store(lake, replace(DONE, measured=Measured(alone, "torch 2.9.0")), HandClock(), PROC)
    assert _ask(lake, "SELECT together_bytes_per_second FROM link_ceiling") == [(None,), (None,)]


def test_the_id_that_the_collector_gave_is_kept(lake: Path) -> None:
    writer = _collector(lake)
    names = StoredNames(writer, HandClock())
    given = [names.device({"kind": "gpu", "name": gpu.uuid}) for gpu in (OTHER_GPU, GPU)]
    writer.close()
    store(lake, DONE, HandClock(), PROC)
    assert _ask(lake, "SELECT DISTINCT device FROM link_ceiling") == [(given[1],)]
    assert _ask(lake, "SELECT count(*) FROM device") == [(2,)]


def test_it_is_found_while_the_collector_runs(lake: Path) -> None:
    writer = _collector(lake)
    number = StoredNames(writer, HandClock()).device({"kind": "gpu", "name": GPU.uuid})
    writer.seal()
    try:
        store(lake, DONE, HandClock(), PROC)
        assert _ask(lake, "SELECT DISTINCT device FROM link_ceiling") == [(number,)]
    finally:
        writer.close()


def test_a_gpu_that_the_running_collector_has_not_named_yet_is_refused(lake: Path) -> None:
    writer = _collector(lake)
    try:
        with pytest.raises(LakeError, match=rf"does not know {GPU.uuid} yet") as refused:
            store(lake, DONE, HandClock(), PROC)
    finally:
        writer.close()
    assert "Wait until the running collector has read its GPUs" in refused.value.hint


def test_the_collector_takes_over_the_id_that_was_given_meanwhile(lake: Path) -> None:
    store(lake, DONE, HandClock(), PROC)
    number = find_device(lake, GPU.uuid)
    writer = _collector(lake)
    names = StoredNames(writer, HandClock())
    assert names.device({"kind": "gpu", "name": GPU.uuid, "numa_node": 1}) == number
    assert names.device({"kind": "gpu", "name": OTHER_GPU.uuid}) != number
    writer.close()


def test_a_disk_of_the_same_name_is_no_gpu(lake: Path) -> None:
    writer = _collector(lake)
    StoredNames(writer, HandClock()).device({"kind": "disk", "name": GPU.uuid})
    writer.close()
    assert find_device(lake, GPU.uuid) is None


def test_without_a_lake_the_way_to_one_is_told(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="no lake at") as refused:
        store(tmp_path / "nothing", DONE, HandClock(), PROC)
    assert "stallscope up" in refused.value.hint
    assert not (tmp_path / "nothing").exists()


def test_what_was_not_measured_makes_no_rows() -> None:
    assert ceiling_rows(1, Calibrated(GPU, Outcome.BUSY, "it is 93% busy")) == []
