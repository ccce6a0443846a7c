from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.host_pressure import HostPressure
from collector.pressure_text import parse_cpu_stat, parse_meminfo, parse_pressure
from collector.source import NoData, Reading, SourceError, State
from stallscope.schema import table
from tests.collector.fake_machine import FakeMachine, count_descriptors, refusal_of, row_of, rows_of

_TICK = 100_000
_MEMINFO = """\
MemTotal:       263858404 kB
MemFree:         1048576 kB
MemAvailable:    2097152 kB
Dirty:                64 kB
Writeback:             0 kB
Mlocked:            3072 kB
Unevictable:        4096 kB
Shmem:              1024 kB
HugePages_Total:     512
HugePages_Free:      500
Hugepagesize:       2048 kB
"""


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    fake = FakeMachine(tmp_path)
    for resource in ("cpu", "memory", "io"):
        _press(fake, resource, some=0, full=0)
    fake.write("proc/pressure/irq", "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    fake.write("proc/meminfo", _MEMINFO)
    return fake


def _press(
    fake: FakeMachine, resource: str, *, folder: str = "proc/pressure", **totals: int
) -> None:
    suffix = "" if folder == "proc/pressure" else ".pressure"
    lines = (
        f"{share} avg10=99.00 avg60=0.00 avg300=0.00 total={total}\n"
        for share, total in totals.items()
    )
    fake.write(f"{folder}/{resource}{suffix}", "".join(lines))


def _fail(monkeypatch: pytest.MonkeyPatch, part: str, number: int, calls: list[str]) -> None:
    """Let reads of paths with that part fail: the file opens, reading it does not work."""
    opened: dict[int, str] = {}
    real_open, real_read = os.open, os.pread

    def watched_open(path: str | os.PathLike[str], flags: int) -> int:
        descriptor = real_open(path, flags)
        opened[descriptor] = os.fspath(path)
        return descriptor

    def failing_read(descriptor: int, size: int, offset: int) -> bytes:
        if part in opened.get(descriptor, ""):
            calls.append(opened[descriptor])
            raise OSError(number, os.strerror(number))
        return real_read(descriptor, size, offset)

    monkeypatch.setattr(os, "open", watched_open)
    monkeypatch.setattr(os, "pread", failing_read)


def test_ratios_are_gains_of_totals_over_the_window_and_not_the_averages(
    fake: FakeMachine,
) -> None:
    source = HostPressure(fake.machine)
    first = row_of(source)
    assert first["window_us"] is None
    assert "cpu_some_ratio" not in first
    _press(fake, "cpu", some=25_000, full=0)
    _press(fake, "memory", some=10_000, full=5_000)
    _press(fake, "io", some=100_000, full=50_000)
    fake.write("proc/pressure/irq", "full avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n")
    fake.clock.advance(_TICK)
    row = row_of(source)
    assert row["window_us"] == _TICK
    assert {name: value for name, value in row.items() if name.endswith("_ratio")} == {
        "cpu_some_ratio": 0.25,
        "memory_some_ratio": 0.1,
        "memory_full_ratio": 0.05,
        "io_some_ratio": 1.0,
        "io_full_ratio": 0.5,
        "irq_full_ratio": 0.01,
    }
    assert row["reason"] is None


def test_a_total_that_gained_a_little_more_than_the_window_is_all_of_it(
    fake: FakeMachine,
) -> None:
    source = HostPressure(fake.machine)
    row_of(source)
    _press(fake, "io", some=_TICK + 300, full=0)
    fake.clock.advance(_TICK)
    assert row_of(source)["io_some_ratio"] == 1.0


def test_full_pressure_on_the_cpu_of_the_whole_system_is_no_figure(fake: FakeMachine) -> None:
    # absent before 5.13 and a constant 0 since: neither is a measurement
    source = HostPressure(fake.machine)
    row_of(source)
    fake.clock.advance(_TICK)
    assert row_of(source).get("cpu_full_ratio") is None


def test_every_column_it_writes_is_in_the_table(fake: FakeMachine) -> None:
    fake.write("sys/fs/cgroup/cgroup.controllers", "cpu\n")
    source = HostPressure(fake.machine, cgroups=lambda: ["/a"])
    names = {column.name for column in table("host_pressure").columns}
    for _ in range(2):
        fake.clock.advance(_TICK)
        for row in rows_of(source):
            assert set(row) <= names


def test_memory_is_in_bytes_and_huge_pages_in_pages(fake: FakeMachine) -> None:
    row = row_of(HostPressure(fake.machine))
    assert row["memory_total_bytes"] == 263_858_404 * 1024
    assert row["memory_available_bytes"] == 2**31
    assert row["dirty_bytes"] == 65_536
    assert row["writeback_bytes"] == 0
    assert row["mlocked_bytes"] == 3 * 2**20
    assert row["unevictable_bytes"] == 4 * 2**20
    assert row["shmem_bytes"] == 2**20
    assert (row["hugepages_total"], row["hugepages_free"]) == (512, 500)


def test_a_key_the_kernel_lacks_is_unknown_and_named(fake: FakeMachine) -> None:
    fake.write("proc/meminfo", _MEMINFO.replace("MemAvailable", "MemFoo"))
    row = row_of(HostPressure(fake.machine))
    assert "memory_available_bytes" not in row
    assert row["reason"] == "not in meminfo: memory_available_bytes"


def test_pressure_that_is_switched_off_leaves_memory_and_is_not_hammered(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # psi disabled at boot: the files are there, reading them gives EOPNOTSUPP (netdata#7531)
    calls: list[str] = []
    _fail(monkeypatch, "/pressure/", errno.EOPNOTSUPP, calls)
    source = HostPressure(fake.machine)
    for _ in range(50):
        source.read()
        fake.clock.advance(_TICK)
    assert len(calls) == 4
    reading = source.read()
    assert isinstance(reading, Reading)
    assert reading.reason == "; ".join(
        f"{what}: switched off, boot with psi=1" for what in ("cpu", "memory", "io")
    )
    (row,) = reading.rows["host_pressure"]
    assert isinstance(row, dict)
    assert row["memory_available_bytes"] == 2**31
    assert not [name for name in row if name.endswith("_ratio")]


def test_it_is_asked_again_after_a_minute(fake: FakeMachine) -> None:
    (fake.proc / "pressure/io").unlink()
    source = HostPressure(fake.machine)
    assert "io: not in this kernel" in str(row_of(source)["reason"])
    _press(fake, "io", some=0, full=0)
    for seconds, known in ((59, False), (2, False), (1, True)):
        fake.clock.advance(seconds * 1_000_000)
        assert ("io_some_ratio" in row_of(source)) is known


def test_an_old_kernel_without_pressure_still_gives_memory(fake: FakeMachine) -> None:
    for resource in ("cpu", "memory", "io", "irq"):
        (fake.proc / "pressure" / resource).unlink()
    reading = HostPressure(fake.machine).read()
    assert isinstance(reading, Reading)
    assert "cpu: not in this kernel (needs Linux 4.20 and CONFIG_PSI)" in reading.reason


def test_a_kernel_without_interrupt_accounting_is_not_partial(fake: FakeMachine) -> None:
    (fake.proc / "pressure/irq").unlink()
    reading = HostPressure(fake.machine).read()
    assert isinstance(reading, Reading)
    assert reading.reason == ""
    (row,) = reading.rows["host_pressure"]
    assert isinstance(row, dict)
    assert str(row["reason"]).startswith("irq: not in this kernel")


def test_memory_that_cannot_be_read_is_named_and_pressure_goes_on(fake: FakeMachine) -> None:
    (fake.proc / "meminfo").unlink()
    reading = HostPressure(fake.machine).read()
    assert isinstance(reading, Reading)
    assert reading.reason == "meminfo: no such file or directory"
    (row,) = reading.rows["host_pressure"]
    assert isinstance(row, dict)
    assert row["reason"] == reading.reason


def test_an_empty_file_says_so(fake: FakeMachine) -> None:
    fake.write("proc/pressure/cpu", "")
    assert row_of(HostPressure(fake.machine))["reason"] == "cpu: no total in its file"


def test_nothing_at_all_is_unsupported(tmp_path: Path) -> None:
    refusal = refusal_of(HostPressure(FakeMachine(tmp_path).machine))
    assert refusal.state == State.UNSUPPORTED


def test_nothing_for_want_of_permission_is_restricted(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail(monkeypatch, "/proc/", errno.EACCES, [])
    refusal = refusal_of(HostPressure(fake.machine))
    assert refusal.state == State.RESTRICTED
    assert "meminfo: permission denied" in refusal.reason


def test_nothing_for_another_reason_is_a_failure(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail(monkeypatch, "/proc/", errno.EIO, [])
    with pytest.raises(SourceError, match="input/output error"):
        HostPressure(fake.machine).read()


def _cgroup(fake: FakeMachine, path: str, *, throttled: int, full: int) -> None:
    for resource in ("cpu", "memory", "io"):
        _press(fake, resource, folder=f"sys/fs/cgroup{path}", some=full * 2, full=full)
    stat = f"usage_usec 9\nnr_periods 50\nnr_throttled {throttled}\nthrottled_usec {full}\n"
    fake.write(f"sys/fs/cgroup{path}/cpu.stat", stat)


def test_a_cgroup_has_its_own_row_with_full_cpu_pressure_and_throttling(
    fake: FakeMachine,
) -> None:
    fake.write("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n")
    _cgroup(fake, "/pod/engine", throttled=3, full=1_000)
    source = HostPressure(fake.machine, cgroups=lambda: ["/pod/engine"])
    rows_of(source)
    _cgroup(fake, "/pod/engine", throttled=5, full=21_000)
    fake.clock.advance(_TICK)
    system, row = rows_of(source)
    assert (system["scope"], row["scope"]) == ("system", "/pod/engine")
    assert row["cpu_full_ratio"] == 0.2
    assert row["memory_some_ratio"] == 0.4
    assert (row["throttled_periods"], row["throttled_us"]) == (2, 20_000)
    assert "throttled_us" not in system
    assert "memory_available_bytes" not in row


def test_a_cgroup_made_anew_starts_anew(fake: FakeMachine) -> None:
    fake.write("sys/fs/cgroup/cgroup.controllers", "cpu\n")
    _cgroup(fake, "/a", throttled=3, full=9_000)
    source = HostPressure(fake.machine, cgroups=lambda: ["/a"])
    rows_of(source)
    _cgroup(fake, "/a", throttled=1, full=10)
    fake.clock.advance(_TICK)
    row = rows_of(source)[1]
    assert not [name for name in row if name.endswith("_ratio") or "throttled" in name]
    assert "cpu: a counter fell" in str(row["reason"])


def test_cgroups_come_and_go_with_the_engines(fake: FakeMachine) -> None:
    fake.write("sys/fs/cgroup/unified/cgroup.controllers", "\n")  # beside v1 on hybrid machines
    fake.write("sys/fs/cgroup/unified/a/cpu.stat", "usage_usec 9\n")
    paths: list[str] = []
    source = HostPressure(fake.machine, cgroups=lambda: paths)
    assert [row["scope"] for row in rows_of(source)] == ["system"]
    paths[:] = ["/a", "/a", "/"]
    rows = rows_of(source)
    assert [row["scope"] for row in rows] == ["system", "/a"]
    assert "cpu.stat: the cpu controller is off here" in str(rows[1]["reason"])
    assert "io: no such file" in str(rows[1]["reason"])
    before = count_descriptors()
    paths.clear()
    assert [row["scope"] for row in rows_of(source)] == ["system"]
    assert count_descriptors() == before - 1


def test_a_cgroup_of_another_namespace_is_not_looked_for(fake: FakeMachine) -> None:
    fake.write("sys/fs/cgroup/cgroup.controllers", "\n")
    reading = HostPressure(fake.machine, cgroups=lambda: ["/../../etc"]).read()
    assert isinstance(reading, Reading)
    assert len(reading.rows["host_pressure"]) == 1
    assert reading.reason == "cgroup /../../etc: outside of what is mounted here"


def test_a_machine_with_cgroup_v1_only_says_so(fake: FakeMachine) -> None:
    reading = HostPressure(fake.machine, cgroups=lambda: ["/a"]).read()
    assert isinstance(reading, Reading)
    assert reading.reason == "cgroups: no cgroup v2 hierarchy under /sys/fs/cgroup"


def test_a_step_of_the_wall_clock_does_not_touch_windows(fake: FakeMachine) -> None:
    source = HostPressure(fake.machine)
    row_of(source)
    fake.clock.wall_offset_us += 3_600_000_000
    fake.clock.advance(_TICK)
    assert row_of(source)["window_us"] == _TICK


def test_closing_gives_back_every_descriptor(fake: FakeMachine) -> None:
    before = count_descriptors()
    fake.write("sys/fs/cgroup/cgroup.controllers", "\n")
    _cgroup(fake, "/a", throttled=0, full=0)
    source = HostPressure(fake.machine, cgroups=lambda: ["/a"])
    source.read()
    assert count_descriptors() == before + 9
    source.close()
    assert count_descriptors() == before


def test_pressure_lines_that_are_broken_are_left_out() -> None:
    text = "some avg10=0.00 total=-5\nfull avg10=0.00\nsome total=7\nodd total=9\n"
    assert parse_pressure(text) == {"some": 7}


@given(st.one_of(st.binary().map(lambda data: data.decode("utf-8", "replace")), st.text()))
def test_no_text_makes_a_parser_raise(text: str) -> None:
    for prefix in ("", "some ", "full total=", "nr_throttled ", "MemTotal: "):
        for parse in (parse_pressure, parse_cpu_stat, parse_meminfo):
            assert all(number >= 0 for number in parse(prefix + text).values())


@given(st.lists(st.tuples(st.integers(0, 10**15), st.integers(1, 10**7)), min_size=2, max_size=6))
def test_no_sequence_of_totals_gives_a_ratio_outside_zero_and_one(
    tmp_path_factory: pytest.TempPathFactory, polls: list[tuple[int, int]]
) -> None:
    fake = FakeMachine(tmp_path_factory.mktemp("machine"))
    fake.write("proc/meminfo", _MEMINFO)
    source = HostPressure(fake.machine)
    for total, us in polls:
        _press(fake, "io", some=total, full=total // 2)
        fake.clock.advance(us)
        reading = source.read()
        assert not isinstance(reading, NoData)
        for row in reading.rows["host_pressure"]:
            assert isinstance(row, dict)
            ratios = [row[name] for name in row if name.endswith("_ratio")]
            assert all(0 <= ratio <= 1 for ratio in ratios)
    source.close()
