from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from stallscope.storage.housekeeping import Housekeeping
from stallscope.storage.manifest import ManifestWriter
from stallscope.storage.reader import Lake
from stallscope.storage.retention import Limits
from stallscope.storage.writer import Writer
from tests.storage.conftest import QUIET
from tests.storage.lake_rows import HandClock, gaps


def test_a_segment_made_again_under_its_old_name_outlives_the_grace_period(
    open_writer: Callable[..., Writer], tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    writer.append("token_gap", gaps(0, 10))
    writer.flush()
    killed = Path(shutil.copytree(tmp_path / "lake", tmp_path / "killed"))
    writer.seal()  # the process dies when the segment has its name but no line in the manifest
    shutil.copytree(tmp_path / "lake/segments", killed / "segments", dirs_exist_ok=True)

    layout = Lake(killed).layout
    manifest = ManifestWriter(layout.manifest("collect"), sync=False)
    keeper = Housekeeping(layout, manifest, "collect", clock, Limits(), 900, sync=False)
    assert len(list(killed.glob("segments/token_gap/*"))) == 1, "the orphan that is buried"
    again = Writer.open(killed, "collect", clock=clock, options=QUIET)
    again.close()
    keeper.manifest = ManifestWriter(layout.manifest("collect"), sync=False)
    clock.advance(901_000_000)
    keeper.round()
    with Lake(killed).connect(tables=["token_gap"]) as connection:
        assert connection.execute("SELECT count(*) FROM token_gap").fetchall() == [(10,)]
    keeper.manifest.close()
    manifest.close()
