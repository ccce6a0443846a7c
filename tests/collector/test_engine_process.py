from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from collector.engine_process import EngineProcess
from collector.source import Reading, Row, State
from stallscope.schema import table
from tests.collector.fake_machine import FakeMachine, count_descriptors, refusal_of, row_of, rows_of

_SECOND = 1_000_000
_SECRET = "sk-very-secret"  # noqa: S105 - stands for a key on a command line
_VLLM = ("/usr/bin/python3", "/usr/local/bin/vllm", "serve", "model", "--api-key", _SECRET)
_SPAWNED = (
    "python3",
    "-c",
    "from multiprocessing.spawn import spawn_main",
    "--multiprocessing-fork",
)


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def _run(  # noqa: PLR0913 - each is a line of a file
    fake: FakeMachine,
    pid: int,
    command: Sequence[str],
    *,
    thread: str = "python3",
    parent: int = 1,
    start: int = 900,
    cgroup: str = "/engines.slice",
) -> None:
    """Start a process, or change what it shows."""
    folder = f"proc/{pid}"
    fake.write(f"{folder}/cmdline", "".join(f"{argument}\0" for argument in command))
    between = " ".join("0" for _ in range(5, 22))  # fields 5 to 21
    fake.write(f"{folder}/stat", f"{pid} ({thread}) S {parent} {between} {start} 0 0\n")
    fake.write(f"{folder}/cgroup", f"12:cpu:/old\n0::{cgroup}\n")
    _work(fake, pid, run_ns=1_000, delay_ns=500)


def _work(  # noqa: PLR0913 - each is a line of a file
    fake: FakeMachine,
    pid: int,
    *,
    run_ns: int,
    delay_ns: int,
    slices: int = 7,
    voluntary: int = 10,
    forced: int = 3,
    cpus: str = "0-3",
) -> None:
    fake.write(f"proc/{pid}/task/{pid}/schedstat", f"{run_ns} {delay_ns} {slices}\n")
    status = (
        "Name:\tpython3\nThreads:\t87\nVmLck:\t    1024 kB\nVmPin:\t       0 kB\n"
        "RssAnon:\t 4096 kB\nRssShmem:\t 2048 kB\n"
        f"Cpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-1\n"
        f"voluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t{forced}\n"
    )
    fake.write(f"proc/{pid}/status", status)


def _later(fake: FakeMachine, source: EngineProcess, us: int = _SECOND) -> list[Row]:
    fake.clock.advance(us)
    return list(rows_of(source))


def test_a_process_is_described_and_its_first_row_has_no_rates(fake: FakeMachine) -> None:
    fake.write("sys/devices/system/node/node0/cpulist", "0-3\n")
    _run(fake, 4711, _VLLM, thread="vllm serve (x) ")
    row = dict(row_of(EngineProcess(fake.machine)))
    del row["wall_us"], row["mono_us"]
    assert row == {
        "engine": None,
        "pid": 4711,
        "start_ticks": 900,
        "thread": "vllm serve (x) ",
        "window_us": None,
        "threads": 87,
        "locked_bytes": 2**20,
        "rss_anon_bytes": 4 * 2**20,
        "rss_shmem_bytes": 2 * 2**20,
        "cpus_allowed": "0-3",
        "mems_allowed": "0-1",
        "numa_nodes": "0",
        "reason": None,
    }


def test_run_delay_is_its_gain_over_the_window(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    source = EngineProcess(fake.machine)
    rows_of(source)
    _work(fake, 4711, run_ns=400_001_000, delay_ns=250_000_500, voluntary=16, forced=4)
    (row,) = _later(fake, source)
    assert row["window_us"] == _SECOND
    assert (row["run_ratio"], row["run_delay_ratio"]) == (0.4, 0.25)
    assert (row["voluntary_switches"], row["forced_switches"]) == (6, 1)


def test_a_lump_of_delay_from_several_windows_is_not_cut(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    source = EngineProcess(fake.machine)
    rows_of(source)
    _work(fake, 4711, run_ns=1_000, delay_ns=3_000_000_500)
    (row,) = _later(fake, source)
    assert row["run_delay_ratio"] == 3.0


def test_every_column_it_writes_is_in_the_table(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    source = EngineProcess(fake.machine)
    names = {column.name for column in table("engine_process").columns}
    assert set(row_of(source)) <= names
    assert set(_later(fake, source)[0]) <= names


def test_nothing_of_a_command_line_reaches_a_row_or_a_reason(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    reading = EngineProcess(fake.machine).read()
    assert _SECRET not in repr(reading)


def test_accounting_that_is_off_is_unsupported_and_not_zero(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    source = EngineProcess(fake.machine)
    _work(fake, 4711, run_ns=0, delay_ns=0, slices=0)
    rows_of(source)
    fake.clock.advance(_SECOND)
    reading = source.read()
    assert isinstance(reading, Reading)
    (row,) = reading.rows["engine_process"]
    assert isinstance(row, dict)
    assert row.get("run_ratio") is row.get("run_delay_ratio") is None
    assert row["voluntary_switches"] == 0
    assert reading.reason == "run delay: the kernel does not count it (CONFIG_SCHED_INFO)"


def test_a_counter_that_fell_gives_no_figure(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    source = EngineProcess(fake.machine)
    rows_of(source)
    _work(fake, 4711, run_ns=10, delay_ns=600, voluntary=9)
    (row,) = _later(fake, source)
    assert row["run_ratio"] is None
    assert row["run_delay_ratio"] is not None
    assert row["voluntary_switches"] is None


def test_a_kernel_without_some_lines_leaves_them_unknown(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    fake.write("proc/4711/status", "Name:\tpython3\nThreads:\tmany\n")
    row = row_of(EngineProcess(fake.machine))
    unknown = ("threads", "locked_bytes", "rss_anon_bytes", "cpus_allowed", "numa_nodes")
    assert [row[name] for name in unknown] == [None] * len(unknown)


def test_a_file_that_is_missing_is_named_and_the_rest_is_kept(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    (fake.proc / "4711/task/4711/schedstat").unlink()
    row = row_of(EngineProcess(fake.machine))
    assert (row["threads"], row["reason"]) == (87, "schedstat: no such file or directory")


def test_engines_are_looked_for_every_ten_seconds(fake: FakeMachine) -> None:
    _run(fake, 1, ("/sbin/init",), thread="systemd")
    source = EngineProcess(fake.machine)
    assert refusal_of(source).state == State.NOT_FOUND
    _run(fake, 4711, _VLLM)
    fake.clock.advance(9 * _SECOND)
    assert refusal_of(source).reason.startswith("no engine among 1 processes")
    assert len(_later(fake, source)) == 1


def test_a_process_that_ends_has_no_more_rows(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    _run(fake, 4712, ("VLLM::EngineCore",), parent=4711)
    source = EngineProcess(fake.machine)
    assert len(rows_of(source)) == 2
    shutil.rmtree(fake.proc / "4712")
    assert len(_later(fake, source, 10 * _SECOND)) == 1


def test_a_process_that_ends_between_two_scans_is_dropped_at_once(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run(fake, 4711, _VLLM)
    source = EngineProcess(fake.machine)
    rows_of(source)

    def end(*_: object) -> bytes:
        raise OSError(errno.ESRCH, "No such process")

    monkeypatch.setattr(os, "pread", end)
    fake.clock.advance(_SECOND)
    assert refusal_of(source).state == State.NOT_FOUND


def test_a_pid_that_is_given_again_is_another_process(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM, start=900)
    source = EngineProcess(fake.machine)
    rows_of(source)
    _run(fake, 4711, _VLLM, start=5000)
    (row,) = _later(fake, source, 10 * _SECOND)
    assert (row["start_ticks"], row["window_us"]) == (5000, None)


def test_a_thread_that_takes_a_name_later_goes_on_under_it(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    source = EngineProcess(fake.machine)
    rows_of(source)
    _run(fake, 4711, ("VLLM::EngineCore",), thread="VLLM::EngineCor")
    (row,) = _later(fake, source, 10 * _SECOND)
    assert (row["thread"], row["window_us"]) == ("VLLM::EngineCor", 10 * _SECOND)


def test_spawned_workers_belong_to_the_engine_that_is_their_parent(fake: FakeMachine) -> None:
    _run(fake, 50, _VLLM)
    _run(fake, 60, _SPAWNED, parent=50)
    _run(fake, 70, _SPAWNED, parent=60)
    _run(fake, 80, _SPAWNED, parent=1)
    assert [row["pid"] for row in rows_of(EngineProcess(fake.machine))] == [50, 60, 70]


def test_the_engine_id_comes_from_whoever_knows_it(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    _run(fake, 4712, _VLLM)
    source = EngineProcess(fake.machine, find_engine={4711: 3}.get)
    assert [row["engine"] for row in rows_of(source)] == [3, None]


def test_cgroups_of_engines_are_offered_to_others(fake: FakeMachine) -> None:
    source = EngineProcess(fake.machine)
    assert source.engine_cgroups() == ()
    _run(fake, 1, ("/sbin/init",), cgroup="/init.scope")
    _run(fake, 4711, _VLLM, cgroup="/b")
    _run(fake, 4712, ("VLLM::EngineCore",), cgroup="/a")
    _run(fake, 4713, ("VLLM::Worker_TP0",), cgroup="/a")
    rows_of(source)
    assert source.engine_cgroups() == ("/a", "/b")


def test_nodes_are_those_of_the_cpus_and_one_without_cpus_is_no_socket(fake: FakeMachine) -> None:
    nodes = {"node0": "0-3\n", "node1": "4-7,12\n", "node2": "\n", "possible": "0-2\n"}
    for node, cpus in nodes.items():
        fake.write(f"sys/devices/system/node/{node}/cpulist", cpus)
    _run(fake, 4711, _VLLM)
    _work(fake, 4711, run_ns=1, delay_ns=1, cpus="2,12-15")
    assert row_of(EngineProcess(fake.machine))["numa_nodes"] == "0,1"


def _hide(monkeypatch: pytest.MonkeyPatch, hidden: Sequence[str]) -> None:
    real = os.open

    def refuse(path: str | os.PathLike[str], flags: int) -> int:
        if any(f"/{pid}/" in os.fspath(path) for pid in hidden):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, flags)

    monkeypatch.setattr(os, "open", refuse)


def test_processes_that_may_not_be_looked_at_are_counted(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in (1, 2, 3):
        _run(fake, pid, ("bash",))
    _run(fake, 4711, _VLLM)
    _hide(monkeypatch, ("2", "3"))
    reading = EngineProcess(fake.machine).read()
    assert isinstance(reading, Reading)
    assert reading.reason == "processes: 2 of 4 unreadable"


def test_no_engine_among_hidden_processes_is_restricted(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in (1, 2):
        _run(fake, pid, ("bash",))
    _hide(monkeypatch, ("2",))
    refusal = refusal_of(EngineProcess(fake.machine))
    assert refusal.state == State.RESTRICTED
    assert refusal.reason == "no engine among 2 processes, 1 of 2 unreadable"


def test_a_proc_that_cannot_be_listed_is_no_crash(fake: FakeMachine) -> None:
    fake.proc.rmdir()
    assert refusal_of(EngineProcess(fake.machine)).state == State.UNSUPPORTED


def test_a_process_that_ends_while_it_is_looked_at_is_passed_over(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    (fake.proc / "4711/stat").unlink()
    _run(fake, 4712, _VLLM)
    (fake.proc / "4712/cgroup").unlink()
    (fake.proc / "4713").mkdir()
    assert [row["pid"] for row in rows_of(EngineProcess(fake.machine))] == [4712]


def test_a_step_of_the_wall_clock_does_not_touch_windows(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    source = EngineProcess(fake.machine)
    rows_of(source)
    fake.clock.wall_offset_us -= 3600 * _SECOND
    (row,) = _later(fake, source)
    assert row["window_us"] == _SECOND


def test_two_polls_at_the_same_moment_give_no_rates(fake: FakeMachine) -> None:
    _run(fake, 4711, _VLLM)
    source = EngineProcess(fake.machine)
    rows_of(source)
    (row,) = _later(fake, source, 0)
    assert (row["window_us"], row.get("run_ratio")) == (None, None)


def test_closing_gives_back_every_descriptor(fake: FakeMachine) -> None:
    before = count_descriptors()
    _run(fake, 4711, _VLLM)
    source = EngineProcess(fake.machine)
    rows_of(source)
    assert count_descriptors() == before + 2
    source.close()
    assert count_descriptors() == before


def test_the_processes_of_this_machine_can_be_looked_at(fake: FakeMachine) -> None:
    live = FakeMachine(fake.proc.parent).machine
    source = EngineProcess(
        type(live)(Path("/proc"), Path("/sys"), live.host, live.clock, live.names)
    )
    source.read()
    source.close()
