"""What the child says when a GPU, the driver or the library fails."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import pytest

from collector.edges.nvml import Gate, Library
from collector.nvml.facts import Host
from collector.nvml.gpu import Gpu
from collector.nvml.messages import GpuState, Greeting, Method, TroubleKind
from lab.nvml.control import Group
from lab.nvml.driver import FakeDriver
from tests.nvml.running_child import RunningChild

RX, TX = 20_000_000_000, 7_000_000_000

PRINT_BEFORE_THE_GREETING = """
import os
from collector.edges.nvml import Library
from collector.nvml.__main__ import main

start = Library.start

def print_and_start(self):
    os.write(1, b"NVRM: hello\\n")
    return start(self)

Library.start = print_and_start
os._exit(main("6.1"))
"""

SHUT_DOWN_ON_SIGUSR1 = """
import ctypes, os, signal
from collector.nvml.__main__ import main

library = ctypes.CDLL("libnvidia-ml.so.1")
signal.signal(signal.SIGUSR1, lambda *_: library.nvmlShutdown())
os._exit(main("6.1"))
"""


def without_gpm(driver: FakeDriver) -> FakeDriver:
    """Save the tenth of a second that GPM needs to start."""
    for gpu in driver.gpus:
        gpu.supports_gpm_cumulative = gpu.supports_gpm_rate = 0
    return driver


@pytest.fixture
def eight(fake_nvml: Path, tmp_path: Path) -> FakeDriver:
    return without_gpm(FakeDriver(fake_nvml, tmp_path / "control", gpus=8))


@pytest.fixture
def two(driver: FakeDriver) -> FakeDriver:
    return without_gpm(driver)


def states(child: RunningChild) -> list[GpuState]:
    return [sample.state for sample in child.link().samples]


@pytest.mark.parametrize(
    ("code", "kind", "advice"),
    [
        (4, TroubleKind.NO_PERMISSION, "/dev/nvidiactl"),
        (9, TroubleKind.NO_DRIVER, "kernel module"),
        (18, TroubleKind.VERSION_MISMATCH, "one version"),
        (20, TroubleKind.FAILED, "Insufficient Memory"),
        (999, TroubleKind.ACCESS_LOST, "restart the container"),
    ],
)
def test_a_library_that_does_not_start_says_why(
    two: FakeDriver, code: int, kind: TroubleKind, advice: str
) -> None:
    two.init_result = code
    with RunningChild(two) as child:
        trouble = child.greeting.trouble
        assert child.process.wait() == 1
    assert trouble is not None
    assert (trouble.kind, trouble.code) == (kind, code)
    assert advice in trouble.text
    assert child.greeting.gpus == ()


def test_what_the_loader_said_is_not_lost(two: FakeDriver, tmp_path: Path) -> None:
    """The binding turns every failure to load into one word (nvidia-docker#876, #1163)."""
    (tmp_path / "libnvidia-ml.so.1").touch()
    with RunningChild(two, environment={"LD_LIBRARY_PATH": str(tmp_path)}) as child:
        trouble = child.greeting.trouble
        assert child.process.wait() == 1
    assert trouble is not None
    assert (trouble.kind, trouble.code) == (TroubleKind.NO_LIBRARY, None)
    assert "libnvidia-ml.so.1: file too short" in trouble.text
    assert "NVIDIA_DRIVER_CAPABILITIES=utility" in trouble.text


def test_gpus_that_cannot_be_counted_are_trouble(two: FakeDriver) -> None:
    two.count_error = 999
    with RunningChild(two) as child:
        assert child.greeting.trouble is not None
        assert child.greeting.trouble.kind is TroubleKind.ACCESS_LOST
        assert child.greeting.driver == "580.95.05"


def test_no_gpus_are_no_trouble(fake_nvml: Path, tmp_path: Path) -> None:
    with RunningChild(FakeDriver(fake_nvml, tmp_path / "control", gpus=0)) as child:
        assert child.greeting == Greeting(None, "580.95.05", "13.580.95.05", 0, ())
        assert child.link().samples == ()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (9, TroubleKind.NO_DRIVER),
        (18, TroubleKind.VERSION_MISMATCH),
        (999, TroubleKind.ACCESS_LOST),
    ],
)
@pytest.mark.parametrize("question", ["link", "state"])
def test_a_library_that_stops_serving_ends_the_child(
    two: FakeDriver, code: int, kind: TroubleKind, question: str
) -> None:
    with RunningChild(two) as child:
        assert child.link().trouble is None
        two.all_calls_result = code
        trouble = (child.link() if question == "link" else child.state()).trouble
        assert child.process.wait() == 1
    assert trouble is not None
    assert (trouble.kind, trouble.code) == (kind, code)
    assert two.shutdowns == 1


def test_a_library_that_was_shut_down_is_started_once_more(two: FakeDriver) -> None:
    two.gpus[0].set_rates(RX, TX)
    with RunningChild(two, SHUT_DOWN_ON_SIGUSR1) as child:
        assert child.first_link().state is GpuState.OK
        child.process.send_signal(signal.SIGUSR1)
        time.sleep(0.2)
        anew = child.link()
        (later,) = child.links_apart(1)
    assert anew.trouble is None
    assert [sample.state for sample in anew.samples] == [GpuState.OK] * 2
    assert anew.samples[0].probes[-1].outcome == "works"
    # A window of 0.1 s on a busy machine: RX and TX are a factor of three apart.
    assert later.rx.bytes_per_second == pytest.approx(RX, rel=0.4)
    assert two.inits == 2


def test_a_library_that_stays_shut_down_has_failed(two: FakeDriver) -> None:
    with RunningChild(two) as child:
        two.gpus[0].fail(Group.LINK, 1)
        trouble = child.link().trouble
        assert child.process.wait() == 1
    assert trouble is not None
    assert (trouble.kind, trouble.code) == (TroubleKind.FAILED, 1)
    assert two.inits == 2


def test_one_lost_gpu_leaves_seven(eight: FakeDriver) -> None:
    """One lost GPU broke all of them elsewhere (rossumai/nvgpu#6, gpud#604)."""
    with RunningChild(eight) as child:
        eight.gpus[3].lost_after_calls = 2
        samples = child.link().samples
        calls = eight.gpus[3].calls
        again = states(child)
        assert eight.gpus[3].calls == calls  # not asked again so soon
        eight.gpus[3].lost = 0
        time.sleep(1.1)
        assert states(child) == [GpuState.OK] * 8
        back = child.links_apart(1)
    expected = [GpuState.GPU_LOST if index == 3 else GpuState.OK for index in range(8)]
    assert [sample.state for sample in samples] == again == expected
    assert "GPU is lost (15)" in samples[3].reason
    assert samples[3].uuid == eight.gpus[3].uuid
    assert back[0].state is GpuState.OK


def test_a_lost_gpu_has_no_state_either(two: FakeDriver) -> None:
    with RunningChild(two) as child:
        two.gpus[1].lost = 1
        first, second = child.state().samples
    assert (first.state, second.state) == (GpuState.OK, GpuState.GPU_LOST)
    assert first.values
    assert second.values == {}
    assert "GPU is lost" in second.reason


def test_a_gpu_that_is_lost_from_the_start_is_counted(two: FakeDriver) -> None:
    """ "2 of 2 GPUs", one of them without a name (dcgm-exporter#604, #250)."""
    two.gpus[0].lost = 1
    with RunningChild(two) as child:
        lost, well = child.greeting.gpus
        assert child.greeting.trouble is None
        absent = child.link()
        two.gpus[0].lost = 0
        time.sleep(1.1)
        back, known = child.link(), child.link()
    assert ([sample.uuid for sample in absent.samples], absent.gpus) == ([two.gpus[1].uuid], ())
    assert child.greeting.expected_gpus == 2
    assert (lost.index, lost.uuid, lost.link_state) == (0, "", GpuState.GPU_LOST)
    assert (well.index, well.uuid) == (1, two.gpus[1].uuid)
    assert [sample.uuid for sample in back.samples] == [gpu.uuid for gpu in two.gpus]
    assert [(gpu.uuid, gpu.link_state) for gpu in back.gpus] == [
        (gpu.uuid, GpuState.OK) for gpu in two.gpus
    ]
    assert (known.trouble, known.gpus) == (None, ())


def test_another_gpu_at_the_same_index_is_not_taken_for_it(two: FakeDriver) -> None:
    with RunningChild(two) as child:
        two.gpus[0].lost = 1
        child.link()
        two.gpus[0].lost = 0
        two.gpus[0].uuid = "GPU-another"
        time.sleep(1.1)
        sample = child.first_link()
    assert sample.state is GpuState.GPU_LOST
    assert "another GPU" in sample.reason


def test_one_gpu_with_an_unknown_error_is_that_gpus_alone(two: FakeDriver) -> None:
    with RunningChild(two) as child:
        two.gpus[1].error_code_for_pcie = 999
        answer = child.link()
    assert answer.trouble is None
    assert [sample.state for sample in answer.samples] == [GpuState.OK, GpuState.GPU_LOST]
    assert "Unknown Error (999)" in answer.samples[1].reason


def test_an_unknown_error_of_one_feature_is_that_features_alone(driver: FakeDriver) -> None:
    driver.gpus[0].set_rates(RX, TX)
    with RunningChild(driver) as child:
        time.sleep(0.15)
        driver.gpus[0].fail(Group.GPM, 999)
        driver.gpus[0].fail(Group.POWER, 999)
        failed = child.first_link()
        (sample,) = child.links_apart(1)
        state = child.first_state()
    assert failed.state is GpuState.OK
    assert "Unknown Error (999)" in failed.reason
    assert (sample.state, sample.method) == (GpuState.OK, Method.FIELD_COUNTER)
    assert sample.rx.bytes_per_second == pytest.approx(RX, rel=0.1)
    assert state.state is GpuState.OK
    assert "Unknown Error: power_watts, power_limit_watts" in state.reason
    assert state.values["temperature_celsius"] == 47


def test_one_hung_gpu_leaves_seven(eight: FakeDriver) -> None:
    with eight, RunningChild(eight) as child:
        for gpu in eight.gpus:
            gpu.set_rates(RX, TX)
        eight.gpus[5].hang = 1
        began = time.monotonic()
        first = child.link().samples
        took = time.monotonic() - began
        later = child.links_apart(1)
        second = child.link().samples
        state = child.state().samples
        eight.gpus[5].hang = 0
        back = child.link().samples[5]
        while back.state is GpuState.HUNG:
            time.sleep(0.02)
            back = child.link().samples[5]
        well = child.link().samples[5]
    expected = [GpuState.HUNG if index == 5 else GpuState.OK for index in range(8)]
    assert [sample.state for sample in first] == expected
    assert [sample.state for sample in second] == expected
    assert [sample.state for sample in state] == expected
    assert 0.39 < took < 5  # s: it was waited for, but not for ever
    assert later[0].rx.bytes_per_second == pytest.approx(RX, rel=0.05)
    assert back.state is GpuState.OK
    assert back.window_us is None
    assert well.state is GpuState.OK


def test_a_gpu_that_hangs_from_the_start_is_greeted_as_such(two: FakeDriver) -> None:
    two.gpus[1].hang = 1
    with RunningChild(two) as child:
        well, hung = child.greeting.gpus
        assert [sample.uuid for sample in child.link().samples] == [well.uuid]
        assert child.signal(signal.SIGTERM) == 0
    assert well.link_state is GpuState.OK
    assert (hung.uuid, hung.link_state) == ("", GpuState.HUNG)
    assert two.shutdowns == 0  # it would hang, too: the end of the process lets go


def test_a_gpu_that_is_slow_to_open_is_described_once_it_is_open(two: FakeDriver) -> None:
    """Without a persistence daemon the driver loads for seconds, one GPU after the other."""
    two.gpus[1].hang = 1
    with RunningChild(two) as child:
        assert child.greeting.gpus[1].link_state is GpuState.HUNG
        two.gpus[1].hang = 0
        time.sleep(0.2)  # for the GPU's thread to come back
        answer = child.state()
    slow = answer.gpus[1]
    assert (answer.trouble, slow.uuid, slow.link_state) == (None, two.gpus[1].uuid, GpuState.OK)
    assert (slow.model, slow.pci_address, slow.max_width) == (
        two.gpus[1].name,
        "0000:29:00.0",
        16,
    )
    assert [sample.uuid for sample in answer.samples] == [gpu.uuid for gpu in two.gpus]


def test_a_gpu_that_hangs_meanwhile_is_no_news(two: FakeDriver) -> None:
    with RunningChild(two) as child:
        child.link()
        two.gpus[1].hang = 1
        hung = child.link()
        two.gpus[1].hang = 0
    assert [sample.state for sample in hung.samples] == [GpuState.OK, GpuState.HUNG]
    assert hung.gpus == ()


def test_a_wrong_struct_version_fails_the_read_loudly(two: FakeDriver) -> None:
    with RunningChild(two) as child:
        two.gpus[0].fail(Group.MEMORY, 25)
        failed = child.first_state()
        link = child.first_link()
        two.gpus[0].fail(Group.MEMORY, 0)
        well = child.first_state()
    assert failed.state is GpuState.SOURCE_BROKEN
    assert failed.values == {}
    assert "(25)" in failed.reason
    assert link.state is GpuState.OK
    assert well.values["memory_used_bytes"] == two.gpus[0].memory_used_bytes


def test_profiling_for_administrators_only_falls_to_the_next_way(driver: FakeDriver) -> None:
    driver.gpus[0].fail(Group.GPM, 4)
    driver.gpus[0].set_rates(RX, TX)
    with RunningChild(driver) as child:
        probes = child.greeting.gpus[0].probes
        (sample,) = child.links_apart(1, 0.2)
    assert [probe.method for probe in probes] == list(Method)[:3]
    for refused in probes[:2]:
        assert "RmProfilingAdminOnly" in refused.outcome
        assert "NVreg_RestrictProfilingToAdminUsers=0" in refused.outcome
    assert (sample.state, sample.method) == (GpuState.OK, Method.FIELD_COUNTER)
    assert sample.rx.bytes_per_second == pytest.approx(RX, rel=0.05)


def test_a_link_that_may_not_be_measured_at_all_says_so(driver: FakeDriver) -> None:
    driver.gpus[0].error_code_for_pcie = 4
    with RunningChild(driver) as child:
        facts = child.greeting.gpus[0]
        calls = driver.gpus[0].group_calls(Group.THROUGHPUT)
        sample = child.first_link()
        assert driver.gpus[0].group_calls(Group.THROUGHPUT) == calls
    assert facts.link_state is sample.state is GpuState.NO_PERMISSION
    assert "RmProfilingAdminOnly" in sample.reason
    assert sample.method is None


def test_permission_that_is_taken_away_is_noticed(driver: FakeDriver) -> None:
    driver.gpus[0].set_rates(RX, TX)
    with RunningChild(driver) as child:
        time.sleep(0.15)
        driver.gpus[0].fail(Group.GPM, 4)
        refused = child.first_link()
        (sample,) = child.links_apart(1)
    assert "(4)" in refused.reason
    assert refused.rx.bytes_per_second is None
    assert [probe.method for probe in refused.probes] == list(Method)[:3]
    assert (sample.state, sample.method) == (GpuState.OK, Method.FIELD_COUNTER)


def test_a_failure_of_the_moment_costs_one_sample(driver: FakeDriver) -> None:
    driver.gpus[0].set_rates(RX, TX)
    with RunningChild(driver) as child:
        time.sleep(0.15)
        driver.gpus[0].fail(Group.GPM, 10)  # a timeout
        failed = child.first_link()
        driver.gpus[0].fail(Group.GPM, 0)
        samples = child.links_apart(3)
    assert "(10)" in failed.reason
    assert failed.rx.bytes_per_second is None
    assert {sample.method for sample in samples} == {Method.GPM_CUMULATIVE}
    assert samples[-1].rx.bytes_per_second == pytest.approx(RX, rel=0.05)


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV])
def test_a_crash_leaves_no_half_answer(two: FakeDriver, number: signal.Signals) -> None:
    """nvitop#139: the parent sees the end of a pipe and a signal."""
    with RunningChild(two) as child:
        if number is signal.SIGABRT:
            two.gpus[1].abort_after_calls = 1
        else:
            two.gpus[1].segfault_after_calls = 1
        child.say("link")
        assert child.process.stdout is not None
        assert child.process.stdout.read() == b""
        assert child.process.wait() == -number


def test_a_hang_in_init_is_left_to_the_parent(two: FakeDriver) -> None:
    """go-nvml#152: nothing is said, and the child can be killed."""
    two.init_hang = 1
    child = RunningChild(two, hear=False)
    while not two.inits:
        time.sleep(0.01)
    assert child.process.poll() is None
    assert child.signal(signal.SIGKILL) == -signal.SIGKILL
    child.end()


@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "stop", "parent is gone"])
def test_whatever_ends_the_child_lets_go_of_the_driver(two: FakeDriver, how: str) -> None:
    """dcgm-exporter#84: killed holders kept the device busy; #706: idle ones, too.

    And it was initialised once, not for every question (pyJoules#50, gpustat#166).
    """
    with RunningChild(two) as child:
        child.link()
        child.state()
        if how == "SIGTERM":
            assert child.signal(signal.SIGTERM) == 0
        elif how == "stop":
            child.say("stop")
            assert child.process.wait() == 0
        elif how == "parent is gone":
            assert child.process.stdout is not None
            child.process.stdout.close()
            child.say("link")
            assert child.process.wait() == 0
        else:
            assert child.end() == 0
    assert (two.inits, two.shutdowns) == (1, 1)


def test_a_signal_waits_for_the_answer_in_hand(two: FakeDriver) -> None:
    for gpu in two.gpus:
        gpu.supports_gpm_cumulative = gpu.supports_gpm_rate = gpu.supports_field_counter = 0
        gpu.throughput_block_us = 100_000
    with RunningChild(two) as child:
        child.say_and_wait("link", two.gpus[0], Group.THROUGHPUT)
        child.process.send_signal(signal.SIGTERM)
        samples = child.hear_link().samples
        assert child.process.wait() == 0
    assert [sample.state for sample in samples] == [GpuState.OK] * 2
    assert two.shutdowns == 1


def test_ctrl_c_at_the_terminal_is_the_parents(two: FakeDriver) -> None:
    with RunningChild(two) as child:
        child.process.send_signal(signal.SIGINT)
        assert child.link().trouble is None


def test_a_line_that_is_not_understood_ends_it(two: FakeDriver) -> None:
    with RunningChild(two) as child:
        child.say("lnik")
        assert child.process.wait() == 2
        assert "not understood: 'lnik'" in child.errors()
    assert two.shutdowns == 1


def test_it_does_without_the_heavy_libraries_of_its_parent() -> None:
    """Its memory counts, and so does the time until it can start anew."""
    heavy = "{'pyarrow', 'numpy', 'duckdb', 'asyncio', 'logging'}"
    program = f"import collector.nvml.__main__, sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


class ForeignLibrary:
    """A library whose handles are nothing the binding knows."""

    def __init__(self) -> None:
        self.gate = Gate()

    def handle(self, _index: int) -> object:
        raise TypeError("no handle")


def test_what_nobody_foresaw_is_told_of_that_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """A fault of ours must not end the thread of a GPU, nor pass for a lost GPU."""
    gpu = Gpu(cast("Library", ForeignLibrary()), 0, Host("580", "6.1"))
    assert gpu.open().error is not None
    (facts,) = gpu.facts
    assert facts.link_state is GpuState.SOURCE_BROKEN
    assert "TypeError: no handle" in facts.link_reason
    assert "Traceback" in capsys.readouterr().err


def test_what_a_library_prints_is_no_answer(two: FakeDriver) -> None:
    with RunningChild(two, PRINT_BEFORE_THE_GREETING) as child:
        assert len(child.greeting.gpus) == len(child.link().samples) == 2
        child.say("stop")
        assert child.errors() == "NVRM: hello\n"
