"""A query in its own process: what it gives, what it may not touch, and how it ends."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stallscope.errors import LakeError, QueryRefusedError, StallscopeError
from stallscope.sql.console import Limits, QueryFailedError, open_query, run_query
from stallscope.sql.sandbox import landlock_version
from stallscope.storage.direct import seal_directly
from stallscope.storage.layout import create_lake
from tests.sql.statements import BREAK_OUTS, FAILING

needs_landlock = pytest.mark.skipif(landlock_version() < 1, reason="this kernel has no Landlock")
LIBRARY = ("CREATE OR REPLACE MACRO twice(x) AS TABLE SELECT 2 * x AS doubled",)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql") / "lake"
    create_lake(folder)
    seal_directly(folder, {"note": [{"wall_us": 1, "text": "one"}, {"wall_us": 2, "text": "two"}]})
    (folder / "segments" / "link.csv").symlink_to("/etc/passwd")
    return folder


@pytest.fixture
def spelled(lake: Path) -> Callable[[str], str]:
    (segment,) = (lake / "segments").rglob("*.parquet")

    def spell(statement: str) -> str:
        for word, path in (
            ("SEGMENTS", lake / "segments"), ("SEGMENT", segment), ("OUTSIDE", "/etc/passwd"),
        ):  # fmt: skip
            statement = statement.replace(word, str(path))
        return statement

    return spell


def _fingerprint(lake: Path) -> dict[str, str]:
    return {
        str(path.relative_to(lake)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(lake.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_select_gives_the_rows_of_the_lake(lake: Path) -> None:
    result = run_query(lake, "SELECT text FROM note ORDER BY wall_us", Limits())
    assert result.table.to_pydict() == {"text": ["one", "two"]}
    assert not result.truncated


def test_the_library_is_there(lake: Path) -> None:
    result = run_query(lake, "SELECT * FROM twice(21)", Limits(), library=LIBRARY)
    assert result.table.to_pydict() == {"doubled": [42]}


def test_times_are_utc_whatever_the_zone_of_the_host(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    sql = "SELECT to_timestamp(0)::VARCHAR AS z, hour(to_timestamp(0)) AS h"
    rows = run_query(lake, sql, Limits()).table.to_pydict()
    assert rows == {"z": ["1970-01-01 00:00:00+00"], "h": [0]}


def test_columns_of_one_name_are_told_apart(lake: Path) -> None:
    table = run_query(lake, "SELECT 1 AS a, 2 AS a, 3 AS A, 4 AS a_1", Limits()).table
    assert table.column_names == ["a", "a_1", "A_2", "a_1_1"]
    assert [column[0].as_py() for column in table.columns] == [1, 2, 3, 4]


def test_rows_beyond_the_limit_are_left_out_and_it_says_so(lake: Path) -> None:
    sql = "SELECT i FROM range(1000000000000) t(i)"
    result = run_query(lake, sql, Limits(max_rows=5_000))
    assert result.table.column("i").to_pylist() == list(range(5_000))
    assert result.truncated


@pytest.mark.parametrize(("rows", "truncated"), [(99, True), (100, False), (101, False)])
def test_a_result_of_just_the_limit_is_whole(lake: Path, rows: int, truncated: bool) -> None:  # noqa: FBT001
    result = run_query(lake, "FROM range(100)", Limits(max_rows=rows))
    assert (result.table.num_rows, result.truncated) == (min(rows, 100), truncated)


def test_bytes_beyond_the_limit_are_left_out_and_it_says_so(lake: Path) -> None:
    sql = "SELECT repeat('x', 10000) AS x FROM range(10000)"
    result = run_query(lake, sql, Limits(max_bytes=1_000_000))
    assert 0 < result.table.nbytes <= 1_000_000
    assert result.truncated


@pytest.mark.parametrize("statement", BREAK_OUTS)
def test_nothing_breaks_out_and_the_lake_stays_as_it_is(
    lake: Path, spelled: Callable[[str], str], statement: str
) -> None:
    before = _fingerprint(lake)
    with pytest.raises((QueryRefusedError, QueryFailedError)):
        run_query(lake, spelled(statement), Limits(timeout_s=20), library=LIBRARY)
    assert _fingerprint(lake) == before


@pytest.mark.parametrize("statement", FAILING)
def test_what_fails_says_why_on_one_line(
    lake: Path, spelled: Callable[[str], str], statement: str
) -> None:
    with pytest.raises(QueryFailedError) as raised:
        run_query(lake, spelled(statement), Limits(timeout_s=20))
    assert raised.value.message
    assert "\n" not in str(raised.value)
    assert "root:" not in str(raised.value)


def test_no_lake_is_said_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"no lake at .*stallscope up"):
        run_query(tmp_path, "SELECT 1", Limits())


@pytest.mark.parametrize(
    "sql",
    [
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT max(i) FROM r",
        "SELECT count(*) FROM range(10000000) a, range(10000000) b",
    ],
)
def test_a_query_without_end_is_stopped(lake: Path, temporary: Path, sql: str) -> None:
    started = time.monotonic()
    with pytest.raises(QueryFailedError, match=r"stopped after 1 s\. .*sql\.timeout_s"):
        run_query(lake, sql, Limits(timeout_s=1))
    assert time.monotonic() - started < 5
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list(i) FROM range(2000000000) t(i)",
        "SELECT repeat('x', 4000000000) AS x",  # one value, past what memory_limit counts
        "SELECT repeat('x', 9000000) FROM range(1000) ORDER BY random()",
    ],
)
def test_a_query_that_wants_all_memory_is_told_off(lake: Path, sql: str) -> None:
    limits = Limits(memory_mb=128, spill_mb=1, timeout_s=60)
    with pytest.raises(QueryFailedError, match="memory"):
        run_query(lake, sql, limits)


def test_a_query_can_be_cancelled_from_another_thread(lake: Path) -> None:
    with open_query(lake, "SELECT sleep_ms(60000)", Limits()) as query:
        threading.Timer(0.3, query.cancel).start()
        with pytest.raises(QueryFailedError, match="cancelled"):
            list(query.batches())


def test_leaving_a_query_ends_its_process_and_its_folder(lake: Path, temporary: Path) -> None:
    with open_query(lake, "FROM range(1000000000)", Limits(max_rows=None, max_bytes=None)) as query:
        next(query.batches())
        process = query.process_id
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert list(temporary.iterdir()) == []


def test_a_query_ends_with_the_program_that_asked(
    lake: Path, tmp_path: Path, temporary: Path
) -> None:
    told = tmp_path / "pid"
    program = (
        "import sys; from pathlib import Path\n"
        "from stallscope.sql.console import Limits, open_query\n"
        "with open_query(Path(sys.argv[1]), 'FROM range(1000000000)',"
        " Limits(max_rows=None, max_bytes=None)) as query:\n"
        "    Path(sys.argv[2]).write_text(str(query.process_id))\n"
        "    sys.stdin.read()\n"
    )
    asker = subprocess.Popen(
        [sys.executable, "-c", program, str(lake), str(told)],
        stdin=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    with asker:
        _wait_for(lambda: told.exists() and told.read_text() != "")
        asker.kill()
    process = int(told.read_text())
    _wait_for(lambda: not _runs(process))
    (orphan,) = temporary.iterdir()
    run_query(lake, "SELECT 1", Limits())
    assert list(temporary.iterdir()) == [orphan], "a young folder may be another query's"
    os.utime(orphan, (0, 0))
    run_query(lake, "SELECT 1", Limits())
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_running_query_is_left_alone(lake: Path, temporary: Path) -> None:
    with open_query(lake, "SELECT 1 AS x", Limits()) as query:
        (folder,) = temporary.iterdir()
        os.utime(folder, (0, 0))
        run_query(lake, "SELECT 1", Limits())
        assert folder.is_dir()
        assert query.schema.names == ["x"]


def test_the_environment_is_not_handed_on(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    with open_query(lake, "FROM range(1000000000)", Limits(max_rows=None, max_bytes=None)) as query:
        assert query.schema.names == ["range"]
        environment = Path(f"/proc/{query.process_id}/environ").read_bytes()
    assert b"s3cret" not in environment
    assert b"TZ=UTC" in environment


@needs_landlock
def test_the_kernel_enforces_it_too(lake: Path) -> None:
    sandbox = run_query(lake, "SELECT 1", Limits(memory_mb=512)).sandbox
    assert sandbox == {"files": f"landlock {landlock_version()}", "memory": "3072 MB"}


_ATTEMPTS = """
import socket, sys
from pathlib import Path
from stallscope.sql.sandbox import enter
lake, scratch = Path(sys.argv[1]), Path(sys.argv[2])
segment = next((lake / "segments").rglob("*.parquet"))
enter(lake, scratch, 64)
attempts = {
    "read the lake": segment.read_bytes,
    "write scratch": lambda: (scratch / "x").write_bytes(b"x"),
    "read elsewhere": Path("/etc/passwd").read_bytes,
    "read through a link": (lake / "segments/link.csv").read_bytes,
    "list elsewhere": lambda: list(Path("/etc").iterdir()),
    "overwrite a segment": lambda: segment.write_bytes(b""),
    "add a segment": lambda: (lake / "segments/new.parquet").write_bytes(b""),
    "remove a segment": segment.unlink,
    "rename a segment": lambda: segment.rename(segment.with_suffix(".gone")),
    "move a segment out": lambda: segment.rename(scratch / "gone"),
    "write elsewhere": lambda: Path("/tmp/stallscope-broke-out").write_bytes(b""),
    "connect": lambda: socket.create_connection(("127.0.0.1", int(sys.argv[3])), 1),
    "allocate": lambda: bytearray(3 << 30),
}
for name, attempt in attempts.items():
    try:
        attempt()
    except PermissionError:
        print(name, "forbidden", sep=": ")
    except OSError as error:
        print(name, error.strerror, sep=": ")
    except MemoryError:
        print(name, "no memory", sep=": ")
    else:
        print(name, "works", sep=": ")
"""


@needs_landlock
def test_what_the_sandbox_allows_and_forbids_to_any_code(lake: Path, tmp_path: Path) -> None:
    before = _fingerprint(lake)
    port = "9"
    result = subprocess.run(
        [sys.executable, "-c", _ATTEMPTS, str(lake), str(tmp_path), port],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    outcome = dict(line.split(": ") for line in result.stdout.splitlines())
    tcp = "forbidden" if landlock_version() >= 4 else "Connection refused"
    assert outcome == {
        "read the lake": "works",
        "write scratch": "works",
        "read elsewhere": "forbidden",
        "read through a link": "forbidden",
        "list elsewhere": "forbidden",
        "overwrite a segment": "forbidden",
        "add a segment": "forbidden",
        "remove a segment": "forbidden",
        "rename a segment": "forbidden",
        "move a segment out": "forbidden",
        "write elsewhere": "forbidden",
        "connect": tcp,
        "allocate": "no memory",
    }
    assert _fingerprint(lake) == before


def test_a_file_in_the_working_directory_passes_for_no_package(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "duckdb.py").write_text("raise SystemExit(9)", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run_query(lake, "SELECT 1 AS x", Limits()).table.to_pydict() == {"x": [1]}


def test_every_error_is_one_of_ours(lake: Path) -> None:
    with pytest.raises(StallscopeError, match="half a character"):
        run_query(lake, "SELECT '\ud800'", Limits())


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").split()[2] != "Z"
    except OSError:
        return False


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
