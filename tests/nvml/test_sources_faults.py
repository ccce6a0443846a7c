from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.source import NoData, SourceError, State
from lab.nvml.driver import FakeDriver
from tests.nvml.sources import GB, Host, make_host, open_host, wait_for


@pytest.fixture
def eight(fake_nvml: Path, tmp_path: Path) -> Iterator[FakeDriver]:
    with FakeDriver(fake_nvml, tmp_path / "eight", gpus=8) as made:
        for index, gpu in enumerate(made.gpus):
            gpu.set_rates(rx=(index + 4) * GB, tx=(index + 1) * GB // 4)
        yield made


@pytest.fixture
def host(eight: FakeDriver, tmp_path: Path) -> Iterator[Host]:
    made = open_host(eight, tmp_path)
    yield made
    made.close()


def _rates(host: Host, polls: int = 1) -> list[float | None]:
    """Return the H2D rate of each GPU in whole GB/s."""
    rates = [row.get("rx_window_mean_bytes_per_second") for row in host.poll(polls=polls)]
    return [round(rate / GB) if isinstance(rate, float) else None for rate in rates]


def _child_pid(host: Host) -> int:
    children = Path("/proc/self/task").glob("*/children")
    pids = {int(pid) for path in children for pid in path.read_text(encoding="ascii").split()}
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids}
    del host
    [pid] = [pid for pid, command in commands.items() if b"collector.nvml" in command]
    return pid


def test_eight_gpus_have_eight_rows(host: Host) -> None:
    assert _rates(host, 2) == [4, 5, 6, 7, 8, 9, 10, 11]
    assert len({row["device"] for row in host.poll()}) == 8


def test_a_gpu_that_falls_off_the_bus_leaves_seven(host: Host, eight: FakeDriver) -> None:
    host.poll(polls=2)
    eight.gpus[2].lost = 1
    reading = host.reading(2)
    rows = reading.rows["gpu_link"]
    assert [row["state"] for row in rows] == ["ok"] * 2 + ["gpu_lost"] + ["ok"] * 5
    assert reading.reason.startswith(f"7 of 8 GPUs, lost: {eight.gpus[2].uuid}")
    assert [row["state"] for row in host.states()].count("ok") == 7


def test_it_keeps_its_row_after_the_child_was_started_anew(host: Host, eight: FakeDriver) -> None:
    devices = [row["device"] for row in host.poll(polls=2)]
    eight.gpus[2].lost = 1
    host.poll()
    host.process.rest()
    rows = host.poll(polls=2)
    assert [row["device"] for row in rows] == devices
    assert [row["state"] for row in rows] == ["ok"] * 2 + ["gpu_lost"] + ["ok"] * 5


def test_a_gpu_that_hangs_holds_nobody_up(host: Host, eight: FakeDriver) -> None:
    host.poll(polls=2)
    eight.gpus[5].hang = 1
    states = [[str(row["state"]) for row in host.poll()] for _ in range(2)]
    assert states == [["ok"] * 5 + ["hung"] + ["ok"] * 2] * 2
    assert _rates(host) == [4, 5, 6, 7, 8, None, 10, 11]
    eight.gpus[5].hang = 0
    host.poll(polls=2)
    assert _rates(host) == [4, 5, 6, 7, 8, 9, 10, 11]


def test_a_child_that_hangs_costs_one_poll(host: Host) -> None:
    host.poll()
    os.kill(_child_pid(host), signal.SIGSTOP)
    with pytest.raises(SourceError, match="no answer within"):
        host.link.read()
    wait_for(host.link.read)
    assert _rates(host, 2) == [4, 5, 6, 7, 8, 9, 10, 11]


def test_a_crash_inside_the_driver_costs_one_poll(host: Host, eight: FakeDriver) -> None:
    host.poll()
    eight.segfault_after_calls = 1
    with pytest.raises(SourceError, match="SIGSEGV"):
        host.reading()
    wait_for(host.link.read)
    assert _rates(host, 2) == [4, 5, 6, 7, 8, 9, 10, 11]


def test_a_driver_that_takes_long_to_load_is_waited_for(eight: FakeDriver, tmp_path: Path) -> None:
    eight.init_delay_us = 1_000_000
    host = open_host(eight, tmp_path)
    try:
        assert _rates(host, 2) == [4, 5, 6, 7, 8, 9, 10, 11]
    finally:
        host.close()


def test_a_driver_that_was_replaced_is_said_so_and_taken_up_again(
    host: Host, eight: FakeDriver
) -> None:
    host.poll()
    eight.all_calls_result = 18
    with pytest.raises(SourceError, match="18"):
        host.reading(3)
    with pytest.raises(SourceError, match="18"):
        host.link.read()
    eight.all_calls_result = 0
    wait_for(host.link.read)
    assert _rates(host, 2) == [4, 5, 6, 7, 8, 9, 10, 11]


def test_access_that_a_container_lost_is_a_restriction_with_the_way_out(
    host: Host, eight: FakeDriver
) -> None:
    """Works for hours, then each call says 999 (NVIDIA/nvidia-docker#1671)."""
    host.poll()
    eight.all_calls_result = 999
    give_up = time.monotonic() + 20
    while not isinstance(answer := _try(host), NoData):
        assert time.monotonic() < give_up, answer
        time.sleep(0.1)
    assert answer.state is State.RESTRICTED
    assert "cgroup" in answer.reason
    eight.all_calls_result = 0
    wait_for(host.link.read)


def _try(host: Host) -> object:
    try:
        return host.link.read()
    except SourceError as error:
        return error


def test_a_machine_without_the_library_says_what_the_loader_said(tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    host = make_host(bare, tmp_path)
    try:
        answer = host.link.read()
        if not isinstance(answer, NoData):
            pytest.skip("this machine has NVML")
        assert "libnvidia-ml.so.1" in answer.reason
        assert "\n" not in answer.reason
        assert host.state.read() == answer
    finally:
        host.close()


def test_on_request_the_driver_is_let_go_of_and_taken_up_again(
    host: Host, eight: FakeDriver
) -> None:
    host.poll()
    pid = _child_pid(host)
    host.requests.release(60, time.monotonic_ns() // 1_000)
    answer = host.link.read()
    assert isinstance(answer, NoData)
    assert answer.state is State.DISABLED
    assert not Path(f"/proc/{pid}").exists()
    assert (eight.inits, eight.shutdowns) == (1, 1)
    host.requests.release(0, time.monotonic_ns() // 1_000)
    wait_for(host.link.read)
    assert _rates(host, 2) == [4, 5, 6, 7, 8, 9, 10, 11]


def test_states_come_through_the_same_child(host: Host, eight: FakeDriver) -> None:
    eight.gpus[1].set_processes({4711: 1 << 30, 4712: 1 << 30})
    eight.gpus[1].power_mw = 512_500
    host.poll()
    rows = host.states()
    assert rows[1]["power_watts"] == 512.5
    assert (rows[0]["processes"], rows[1]["processes"]) == (0, 2)
    assert host.state.gpu_processes()[eight.gpus[1].uuid] == (4711, 4712)
    assert [row["device"] for row in rows] == [row["device"] for row in host.poll()]
    assert eight.inits == 1
