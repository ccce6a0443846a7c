from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from collector.edges.child_process import ChildError
from collector.edges.nvml_process import Child, NoAnswerError, NvmlProcess, Patience
from collector.nvml.messages import Greeting, TroubleKind, encode
from tests.collector import stub_child
from tests.collector.fake_machine import count_descriptors
from tests.collector.stand_ins import SECOND, ManualClock
from tests.conftest import REPO

_STUB = Path(stub_child.__file__)
_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPO)}
_SHORT = Patience(greeting=10, start=20, answer=0.5)


def _command(behaviour: str, *more: str) -> tuple[str, ...]:
    assert behaviour in stub_child.BEHAVIOURS
    return (sys.executable, "-P", str(_STUB), behaviour, *more)


@pytest.fixture
def start() -> Iterator[Callable[..., NvmlProcess]]:
    """Return a function that makes a process with a misbehaving child, ended after the test."""
    made: list[NvmlProcess] = []

    def make(
        behaviour: str,
        *more: str,
        patience: Patience = _SHORT,
        clock: ManualClock | None = None,
    ) -> NvmlProcess:
        process = NvmlProcess(
            _command(behaviour, *more),
            _ENVIRONMENT,
            clock=clock or ManualClock(),
            patience=patience,
        )
        made.append(process)
        return process

    yield make
    for process in made:
        process.close()


Start = Callable[..., NvmlProcess]


def _is_alive(pid: int) -> bool:
    """Return whether a process exists; a zombie does."""
    return Path(f"/proc/{pid}").exists()


def _wait(until: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 20
    while not until():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.01)


def test_a_child_is_started_by_the_first_question_and_answers_each_kind(start: Start) -> None:
    process = start("work")
    greeting = process.greet()
    assert greeting.trouble is None
    assert [sample.uuid for sample in process.ask_link().samples] == ["GPU-0"]
    assert [sample.mono_us for sample in process.ask_state().samples] == [2]
    assert process.greet() is greeting, "one child, one greeting"


def test_what_it_finds_out_later_is_in_its_greeting(start: Start) -> None:
    process = start("name-a-gpu")
    first = process.greet()
    process.ask_link()
    told = process.greet()
    assert (first.gpus, [gpu.uuid for gpu in told.gpus]) == ((), ["GPU-0"])
    assert told.driver == first.driver, "the same child"
    process.ask_link()
    assert process.greet() is told, "nothing is new"


def test_nothing_is_left_behind(start: Start) -> None:
    before = count_descriptors()
    process = start("work")
    pid = int(process.greet().driver)
    assert _is_alive(pid)
    process.close()
    assert not _is_alive(pid)
    assert count_descriptors() == before
    process.close()


def test_it_ends_in_peace_when_it_is_to_rest_and_starts_again(start: Start, tmp_path: Path) -> None:
    process = start("note-its-end", str(tmp_path))
    first = process.greet()
    process.rest()
    assert (tmp_path / "note").read_text(encoding="ascii") == "ended in peace"
    again = process.greet()
    assert again.driver != first.driver


def test_the_last_user_ends_it(start: Start) -> None:
    process = start("work")
    one, other = process.join(), process.join()
    pid = int(one.greet().driver)
    one.leave()
    assert _is_alive(pid)
    assert other.ask_link().samples
    other.leave()
    assert not _is_alive(pid)


def test_a_ctrl_c_at_the_terminal_is_not_for_the_child(start: Start) -> None:
    pid = int(start("work").greet().driver)
    assert os.getsid(pid) == pid != os.getsid(0)


def test_a_hang_costs_one_child(start: Start) -> None:
    process = start("hang")
    pid = int(process.greet().driver)
    with pytest.raises(NoAnswerError, match=r"no answer within 0\.5 s") as caught:
        process.ask_link()
    assert caught.value.trouble.kind is TroubleKind.FAILED
    assert not _is_alive(pid)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("crash", "ended by SIGSEGV"),
        ("cut-answer", "ended with status 0"),
        ("end-with-words", r"ended with status 3; it said: .*OSError: the last words"),
        ("say-garbage", "not a Greeting"),
        ("never-end-a-line", "without an end|no answer"),
    ],
)
def test_a_broken_child_is_ended_and_says_why(start: Start, behaviour: str, words: str) -> None:
    before = count_descriptors()
    process = start(behaviour)
    with pytest.raises(NoAnswerError, match=words) as caught:
        process.ask_link()
    assert len(str(caught.value)) < 600
    assert count_descriptors() == before


def test_what_it_complains_about_does_not_stop_it(start: Start) -> None:
    process = start("complain-much")
    for _ in range(3):
        assert process.ask_link().samples == ()


def test_an_answer_that_nobody_asked_for_is_never_taken_for_another(start: Start) -> None:
    process = start("answer-twice")
    process.ask_link()
    with pytest.raises(NoAnswerError, match="spoke unasked"):
        process.ask_link()


def test_a_program_that_is_not_there_is_said_so() -> None:
    process = NvmlProcess(("/no/such/program",), clock=ManualClock())
    with pytest.raises(NoAnswerError, match="No such file"):
        process.greet()


def test_a_slow_start_is_waited_for(start: Start) -> None:
    clock = ManualClock()
    process = start("start-slowly", clock=clock, patience=Patience(greeting=0.05, start=20))
    with pytest.raises(NoAnswerError, match="still starting"):
        process.greet()
    clock.advance(SECOND)

    def is_there() -> bool:
        try:
            return bool(process.greet().driver)
        except NoAnswerError:
            return False

    _wait(is_there)


def test_a_start_that_hangs_is_ended(start: Start) -> None:
    clock = ManualClock()
    patience = Patience(greeting=0.05, start=20)
    process = start("never-start", clock=clock, patience=patience)
    with pytest.raises(NoAnswerError, match="still starting"):
        process.greet()
    clock.advance(20 * SECOND)
    with pytest.raises(NoAnswerError, match="did not start within 20 s"):
        process.greet()


def test_what_the_child_says_of_its_trouble_is_kept_while_it_is_too_soon_to_try(
    start: Start,
) -> None:
    clock = ManualClock()
    process = start("have-trouble", clock=clock)
    for _ in range(3):
        with pytest.raises(NoAnswerError, match=r"libnvidia-ml\.so\.1") as caught:
            process.greet()
        assert caught.value.trouble.kind is TroubleKind.NO_LIBRARY


def test_a_child_in_trouble_may_say_goodbye_to_the_driver(start: Start, tmp_path: Path) -> None:
    process = start("get-into-trouble", str(tmp_path))
    with pytest.raises(NoAnswerError, match="999") as caught:
        process.ask_link()
    assert caught.value.trouble.kind is TroubleKind.ACCESS_LOST
    assert (tmp_path / "note").exists()


def test_two_threads_ask_and_each_gets_its_own_answer(start: Start) -> None:
    process = start("work")
    faults: list[object] = []

    def ask(what: Callable[[], object]) -> None:
        for _ in range(100):
            try:
                what()
            except Exception as error:  # noqa: BLE001 - whatever goes wrong is the finding
                faults.append(error)

    threads = [
        threading.Thread(target=ask, args=(what,)) for what in (process.ask_link, process.ask_state)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert faults == []


# --- pace of starts, with children that are no processes


@dataclass
class FakeChild:
    """A child that greets and breaks at the first question, and may be impossible to end."""

    is_immortal: bool = False
    said: list[bytes] = field(default_factory=list)

    def ask(self, line: bytes, patience_s: float) -> bytes:
        del patience_s
        self.said.append(line)
        raise ChildError("it broke")

    def listen(self, patience_s: float) -> bytes:
        del patience_s
        return encode(Greeting(driver="1"))

    def end(self) -> bool:
        return not self.is_immortal

    def kill(self) -> bool:
        return not self.is_immortal

    def is_gone(self) -> bool:
        return not self.is_immortal


@dataclass
class Nursery:
    """Starts fake children and notes when."""

    clock: ManualClock = field(default_factory=ManualClock)
    is_immortal: bool = False
    children: list[FakeChild] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def spawn(self, command: Sequence[str], environment: Mapping[str, str] | None) -> Child:
        del command, environment
        self.starts.append(self.clock.mono_us // SECOND - 1_000)
        self.children.append(FakeChild(self.is_immortal))
        return self.children[-1]

    def process(self) -> NvmlProcess:
        return NvmlProcess((), clock=self.clock, spawn=self.spawn)

    def ask_each_second(self, process: NvmlProcess, seconds: int) -> None:
        for _ in range(seconds):
            with pytest.raises(NoAnswerError, match="it broke"):
                process.ask_link()
            self.clock.advance(SECOND)


def test_a_child_that_always_crashes_is_started_more_and_more_rarely() -> None:
    nursery = Nursery()
    nursery.ask_each_second(nursery.process(), 250)
    assert nursery.starts == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


def test_a_child_that_served_for_a_minute_is_replaced_at_once() -> None:
    nursery = Nursery()
    process = nursery.process()
    nursery.ask_each_second(process, 20)
    nursery.clock.advance(11 * SECOND)
    process.greet()  # the child of second 31 begins to serve
    nursery.clock.advance(60 * SECOND)
    nursery.ask_each_second(process, 2)
    assert nursery.starts[-2:] == [31, 92]


def test_children_that_cannot_be_ended_are_at_most_three() -> None:
    nursery = Nursery(is_immortal=True)
    process = nursery.process()
    nursery.ask_each_second(process, 4)
    assert nursery.starts == [0, 1, 3]
    nursery.clock.advance(600 * SECOND)
    with pytest.raises(NoAnswerError, match="3 NVML children hang"):
        process.ask_link()
    nursery.children[1].is_immortal = False
    with pytest.raises(NoAnswerError, match="it broke"):
        process.ask_link()
    assert len(nursery.starts) == 4


def test_the_questions_are_the_agreed_words() -> None:
    nursery = Nursery()
    process = nursery.process()
    with pytest.raises(NoAnswerError):
        process.ask_link()
    nursery.clock.advance(SECOND)
    with pytest.raises(NoAnswerError):
        process.ask_state()
    assert [child.said for child in nursery.children] == [[b"link\n"], [b"state\n"]]


# --- a collector without descriptors 0 to 2, and one that dies

_PARENT = """
import os, sys
for number in map(int, sys.argv[1].split(",") if sys.argv[1] else ()):
    os.close(number)
from pathlib import Path
from collector.edges.nvml_process import NvmlProcess
process = NvmlProcess((sys.executable, "-P", sys.argv[3], "work"))
pid = process.greet().driver
uuids = [sample.uuid for sample in process.ask_link().samples]
Path(sys.argv[2]).write_text(f"{pid} {uuids}")
if sys.argv[4] == "die":
    os._exit(9)
process.close()
"""


def _run_parent(note: Path, closed: str, end: str) -> int:
    """Run a parent to its end and return the process id of its child."""
    subprocess.run(
        [sys.executable, "-c", _PARENT, closed, str(note), str(_STUB), end],
        env=_ENVIRONMENT,
        timeout=60,
        check=end != "die",
    )
    pid, _, answer = note.read_text(encoding="ascii").partition(" ")
    assert answer == "['GPU-0']"
    return int(pid)


@pytest.mark.parametrize("closed", ["0", "0,1,2"])
def test_it_works_where_the_collector_has_no_standard_streams(tmp_path: Path, closed: str) -> None:
    _run_parent(tmp_path / "note", closed, "close")


def test_the_child_ends_when_the_collector_is_killed(tmp_path: Path) -> None:
    pid = _run_parent(tmp_path / "note", "", "die")
    try:
        _wait(lambda: not _is_alive(pid) or _is_zombie(pid))
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        raise


def _is_zombie(pid: int) -> bool:
    """Return whether it only waits for its new parent, who in a container may never come."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2][1] == "Z"
    except FileNotFoundError:
        return True
