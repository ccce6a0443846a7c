from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from dashboard import console as module
from dashboard.console import Console, Job
from stallscope.errors import StallscopeError
from stallscope.sql.console import Limits
from stallscope.storage.layout import create_lake

LIMITS = Limits(memory_mb=256, timeout_s=30, max_rows=100)
FOR_EVER = "SELECT sum(a.range * b.range) FROM range(10000000) AS a, range(10000000) AS b"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    create_lake(tmp_path / "lake")
    return tmp_path / "lake"


def ended(job: Job, within_s: float = 30) -> Job:
    until = time.monotonic() + within_s
    while job.running and time.monotonic() < until:
        time.sleep(0.02)
    assert not job.running
    return job


def test_a_result_is_kept_and_cut_at_the_limit(lake: Path) -> None:
    console = Console()
    job = ended(console.start(lake, "SELECT * FROM range(5000)", LIMITS, ()))
    assert (job.state, job.truncated) == ("done", True)
    assert job.table is not None
    assert job.table.num_rows == 100
    assert console.job(job.id) is job
    assert console.job("nonsense") is None
    assert console.job(None) is None


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("DROP VIEW engine", "refused"), ("SELECT 1; SELECT 2", "refused"),
        ("SELECT * FROM read_csv('/etc/passwd')", "refused"), ("SELECT nosuch", "failed"),
        ("not sql", "failed"),
    ],
)  # fmt: skip
def test_what_may_not_run_or_is_wrong_says_so_on_one_line(lake: Path, sql: str, state: str) -> None:
    job = ended(Console().start(lake, sql, LIMITS, ()))
    assert job.state == state
    assert job.message
    assert "Traceback" not in job.message
    assert "\n" not in job.message


def test_a_query_can_be_cancelled(lake: Path) -> None:
    job = Console().start(lake, FOR_EVER, LIMITS, ())
    time.sleep(0.2)
    job.cancel()
    assert ended(job, 10).state == "cancelled"


def test_only_so_many_run_at_once(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RUNNING_JOBS", 1)
    console = Console()
    first = console.start(lake, FOR_EVER, LIMITS, ())
    with pytest.raises(StallscopeError, match="1 queries run already"):
        console.start(lake, "SELECT 1", LIMITS, ())
    first.cancel()
    ended(first)
    assert ended(console.start(lake, "SELECT 1", LIMITS, ())).state == "done"


def test_old_results_are_dropped_by_number_and_by_size(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_JOBS", 3)
    console = Console()
    jobs = [ended(console.start(lake, f"SELECT {i}", LIMITS, ())) for i in range(5)]
    assert [console.job(job.id) is not None for job in jobs] == [False, False, True, True, True]
    monkeypatch.setattr(module, "KEPT_BYTES", 10)
    jobs[-1].table = pa.table({"x": list(range(100))})
    last = ended(console.start(lake, "SELECT 5", LIMITS, ()))
    assert [console.job(job.id) is not None for job in (*jobs, last)] == [False] * 5 + [True]
