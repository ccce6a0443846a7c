from __future__ import annotations

import shutil
from pathlib import Path

from lab.crash.numbered import engine_row
from stallscope.clock import Instant
from stallscope.storage.housekeeping import Housekeeping
from stallscope.storage.reader import Lake
from stallscope.storage.retention import Limits
from stallscope.storage.writer import Writer, WriterOptions

_QUIET = WriterOptions(sync=False, journal_s=0, live_seal_s=0, housekeeping_s=0)
_GRACE_S = 900


class _HandClock:
    def __init__(self) -> None:
        self.us = 1_700_000_000_000_000

    def now(self) -> Instant:
        return Instant(self.us, self.us)


def _kill_between_rename_and_commit(tmp_path: Path, clock: _HandClock) -> Path:
    """Return a lake whose process died when a segment had its name but no line in the manifest."""
    before, after = tmp_path / "before", tmp_path / "after"
    writer = Writer.open(before, "collect", clock=clock, options=_QUIET)
    writer.append("engine", [engine_row(1, clock.now())])
    writer.flush()
    shutil.copytree(before, after)
    writer.seal()
    shutil.copytree(before / "segments", after / "segments", dirs_exist_ok=True)
    writer.close()
    return after


def test_segment_that_is_made_again_under_its_old_name_outlives_the_grace_period(
    tmp_path: Path,
) -> None:
    clock = _HandClock()
    lake = _kill_between_rename_and_commit(tmp_path, clock)
    assert len(list(lake.rglob("*.parquet"))) == 1, "the orphan this test is about"
    writer = Writer.open(lake, "collect", clock=clock, options=_QUIET)
    keeping = Housekeeping(
        writer.layout, writer.manifest, "collect", clock, Limits(), _GRACE_S, sync=False
    )
    # As if buried at the start, before the replayed rows were sealed under the same name.
    keeping._graveyard.bury(*lake.rglob("*.parquet"))
    clock.us += (_GRACE_S + 1) * 1_000_000
    keeping.round()
    writer.close()
    with Lake(lake).connect(tables=["engine"]) as connection:
        assert connection.execute("SELECT count(*) FROM engine").fetchall() == [(1,)]
