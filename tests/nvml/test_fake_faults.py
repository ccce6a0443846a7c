"""The faults that the stand-in library plays, through the real binding."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import pytest

from lab.nvml.control import Group
from lab.nvml.driver import FakeDriver

Ask = Callable[[str], Any]
Start = Callable[[FakeDriver, str], CompletedProcess[str]]

INIT = "import pynvml as n\nn.nvmlInit()\n"
NAME = "say([code(n.nvmlDeviceGetName, gpu) for gpu in gpus])"


@pytest.mark.parametrize(
    ("result", "name"),
    [
        (9, "NVMLError_DriverNotLoaded"),
        (18, "NVMLError_LibRmVersionMismatch"),
        (999, "NVMLError_Unknown"),
    ],
)
def test_initialisation_fails_as_told(
    driver: FakeDriver, start: Start, result: int, name: str
) -> None:
    driver.init_result = result
    assert name in start(driver, INIT).stderr
    driver.init_result = 0
    assert start(driver, INIT).returncode == 0


def test_initialisation_is_counted(driver: FakeDriver, start: Start) -> None:
    program = INIT + "n.nvmlInit()\nn.nvmlShutdown()\nprint(n.nvmlDeviceGetCount())\n"
    assert start(driver, program + "n.nvmlShutdown()\n").stdout == "2\n"
    assert (driver.inits, driver.shutdowns) == (2, 2)


@pytest.mark.parametrize("program", ["", "n.nvmlShutdown()\n"])
def test_nothing_works_outside_of_initialisation(
    driver: FakeDriver, start: Start, program: str
) -> None:
    body = f"{INIT}{program}n.nvmlShutdown()\nn.nvmlDeviceGetCount()\n"
    assert "NVMLError_Uninitialized" in start(driver, body).stderr


def test_access_lost_hits_every_call_and_a_new_initialisation(driver: FakeDriver, ask: Ask) -> None:
    driver.gpus[0].set_processes({1: 1})
    program = """
import mmap, os
before = code(n.nvmlDeviceGetName, gpus[0])
with open(os.environ["STALLSCOPE_FAKE_NVML"], "r+b") as file:
    state = mmap.mmap(file.fileno(), 0)
    state[OFFSET:OFFSET + 4] = (999).to_bytes(4, "little")
say(before, [code(f, gpus[1]) for f in (n.nvmlDeviceGetName, n.nvmlDeviceGetPowerUsage,
    n.nvmlGpmQueryDeviceSupport)], code(n.nvmlDeviceGetCount), code(n.nvmlInit),
    code(n.nvmlShutdown))
"""
    offset = type(driver.control).all_calls_result.offset
    assert ask(program.replace("OFFSET", str(offset))) == [0, [999, 999, 999], 999, 999, 0]
    assert driver.all_calls_result == 999


def test_a_group_fails_alone_and_on_one_gpu(driver: FakeDriver, ask: Ask) -> None:
    driver.gpus[0].fail(Group.POWER, 4)
    look = (
        "say([[code(n.nvmlDeviceGetPowerUsage, gpu), code(n.nvmlDeviceGetTemperature, gpu, 0)]"
        " for gpu in gpus])"
    )
    assert ask(look) == [[4, 0], [0, 0]]
    assert driver.gpus[0].group_calls(Group.POWER) == 1
    driver.gpus[0].fail(Group.POWER, 0)
    assert ask(look) == [[0, 0], [0, 0]]


def test_everything_about_the_link_fails_together(driver: FakeDriver, ask: Ask) -> None:
    driver.gpus[0].error_code_for_pcie = 4
    got = ask(
        "g = gpus[0]\nsay([code(n.nvmlDeviceGetPcieThroughput, g, 0),"
        " code(n.nvmlDeviceGetFieldValues, g, [197]), code(n.nvmlGpmQueryDeviceSupport, g),"
        " code(n.nvmlDeviceGetCurrPcieLinkWidth, g), code(n.nvmlDeviceGetName, g)])"
    )
    assert got == [4, 4, 4, 4, 0]
    assert driver.gpus[0].error_code_for_pcie == 4


def test_counting_gpus_fails(driver: FakeDriver, start: Start) -> None:
    driver.count_error = 999
    assert "NVMLError_Unknown" in start(driver, INIT + "n.nvmlDeviceGetCount()").stderr


def test_a_gpu_that_cannot_be_opened_is_counted(driver: FakeDriver, start: Start) -> None:
    driver.gpus[1].fail(Group.HANDLE, 15)
    program = "print(n.nvmlDeviceGetCount())\nn.nvmlDeviceGetHandleByIndex(1)\n"
    done = start(driver, INIT + program)
    assert done.stdout == "2\n"
    assert "NVMLError_GpuIsLost" in done.stderr


def test_a_gpu_is_lost_at_its_nth_call_and_stays_lost(driver: FakeDriver, ask: Ask) -> None:
    driver.gpus[1].lost_after_calls = 3  # the first is its handle
    got = ask("say([[code(n.nvmlDeviceGetName, gpu) for gpu in gpus] for _ in range(3)])")
    assert got == [[0, 0], [0, 15], [0, 15]]
    assert driver.gpus[1].lost == 1
    driver.gpus[1].lost = 0
    assert ask(NAME) == [0, 0]


@pytest.mark.parametrize(
    ("fuse", "expected"),
    [("abort_after_calls", signal.SIGABRT), ("segfault_after_calls", signal.SIGSEGV)],
)
@pytest.mark.parametrize("whole_driver", [True, False])
def test_a_crash_comes_once_at_its_call(
    driver: FakeDriver, start: Start, fuse: str, expected: signal.Signals, *, whole_driver: bool
) -> None:
    victim = driver if whole_driver else driver.gpus[0]
    setattr(victim, fuse, 2)
    program = (
        "import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        + INIT
        + "n.nvmlDeviceGetHandleByIndex(0)\nprint('one', flush=True)\n"
        + "n.nvmlDeviceGetHandleByIndex(0)\nprint('two')\n"
    )
    done = start(driver, program)
    assert (done.returncode, done.stdout) == (-expected, "one\n")
    assert start(driver, program).returncode == 0, "the next process lives"


def test_a_hang_holds_one_gpu_until_it_is_released(driver: FakeDriver) -> None:
    driver.gpus[0].hang = 1
    program = (
        INIT
        + """
import threading
def other():
    n.nvmlDeviceGetName(n.nvmlDeviceGetHandleByIndex(1))
    print("other", flush=True)
threading.Thread(target=other).start()
n.nvmlDeviceGetHandleByIndex(0)
print("hung", flush=True)
"""
    )
    with _started(driver, program) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"other\n"
        time.sleep(0.05)
        assert child.poll() is None
        driver.gpus[0].hang = 0
        assert child.stdout.readline() == b"hung\n"
        assert child.wait(10) == 0


def test_initialisation_hangs_until_the_driver_is_closed(driver: FakeDriver) -> None:
    driver.init_hang = 1
    with _started(driver, INIT) as child:
        _wait_for(lambda: driver.inits == 1)
        time.sleep(0.05)
        assert child.poll() is None
        driver.__exit__(None, None, None)
        assert child.wait(10) == 0


@pytest.mark.parametrize("burn", [0, 1])
def test_costs_are_waiting_or_cpu_time(driver: FakeDriver, ask: Ask, burn: int) -> None:
    # Burning ends by the wall clock, so a busy machine burns less: a tenth of it has to do.
    driver.call_delay_us, driver.delays_burn_cpu = 100_000, burn
    wall, cpu = ask(
        "w, c = time.monotonic(), time.process_time()\nn.nvmlDeviceGetName(gpus[0])\n"
        "n.nvmlDeviceGetName(gpus[0])\n"
        "say(time.monotonic() - w, time.process_time() - c)"
    )
    assert wall >= 0.2
    assert (cpu > 0.02) == bool(burn)


def test_fields_cost_what_they_are_said_to(driver: FakeDriver, ask: Ask) -> None:
    gpu = driver.gpus[0]
    gpu.field_pair_cost_us, gpu.unsupported_field_cost_us = 20_000, 30_000
    look = (
        "def look():\n"
        "    began = time.monotonic()\n"
        "    n.nvmlDeviceGetFieldValues(gpus[0], WANTED)\n"
        "    return time.monotonic() - began\n"
        "say(min(look() for _ in range(3)))"
    )
    assert ask(look.replace("WANTED", "[197, 198]")) >= 0.02
    assert ask(look.replace("WANTED", "[9999]")) >= 0.03
    assert ask(look.replace("WANTED", "[94]")) < 0.02


@pytest.mark.parametrize(("serialised", "windows"), [(0, 1), (1, 2)])
def test_throughput_of_two_gpus_overlaps_unless_the_driver_serialises_it(
    driver: FakeDriver, ask: Ask, serialised: int, windows: int
) -> None:
    driver.throughput_serialised = serialised
    for gpu in driver.gpus:
        gpu.throughput_block_us = 50_000
    took = ask(
        """
import threading
def both():
    threads = [threading.Thread(target=n.nvmlDeviceGetPcieThroughput, args=(g, 0)) for g in gpus]
    began = time.monotonic()
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return time.monotonic() - began
say(min(both() for _ in range(4)))  # the least: a busy machine wakes threads late
"""
    )
    assert int(took / 0.05) == windows


def test_calls_are_counted_by_gpu(driver: FakeDriver, ask: Ask) -> None:
    ask("n.nvmlDeviceGetName(gpus[1])\nn.nvmlDeviceGetUUID(gpus[1])\nsay(0)")
    assert [gpu.calls for gpu in driver.gpus] == [1, 3]
    assert driver.calls == 1 + 1 + 4  # initialisation, count, and those of the GPUs
    assert driver.gpus[1].group_calls(Group.IDENTITY) == 2


def test_more_gpus_than_there_is_room_for_are_refused(driver: FakeDriver) -> None:
    with pytest.raises(ValueError, match="17: at most 16"):
        FakeDriver(driver.library_folder, driver.control_file, gpus=17)


def _started(driver: FakeDriver, program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, **driver.environment},
        stdout=subprocess.PIPE,
    )


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)
