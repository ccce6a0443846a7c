"""Programs that run beside something: their end is seen, and none is left behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.edges.timed_program import Finished, ProgramError, run_beside

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def _run(body: str, meanwhile: Callable[[], None] = lambda: None, limit_s: float = 20) -> Finished:
    words = [sys.executable, "-c", body]
    return run_beside(words, ENVIRONMENT, limit_s, meanwhile, every_s=0.05)


def _is_gone(pid: int) -> bool:
    """Return whether a process has ended, waiting a little for those we are no parent of."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_output_errors_and_status_are_kept() -> None:
    done = _run("import sys; print('out'); sys.stderr.write('err'); sys.exit(3)")
    assert done == Finished(3, "out\n", "err")


def test_more_than_a_pipe_holds_is_read() -> None:
    done = _run("import sys; sys.stdout.write('x' * 1_000_000); sys.stderr.write('y' * 1_000_000)")
    assert (len(done.output), len(done.errors)) == (1_000_000, 1_000_000)


def test_the_environment_is_only_what_was_given() -> None:
    assert _run("import os; print('HOME' in os.environ)").output == "False\n"


def test_something_is_done_meanwhile() -> None:
    looks: list[float] = []
    _run("import time; time.sleep(1)", lambda: looks.append(time.monotonic()))
    assert len(looks) > 3


def test_one_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    body = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(note)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)"
    )
    with pytest.raises(ProgramError, match=r"did not end within 3 s"):
        _run(body, limit_s=3)
    assert [_is_gone(int(pid)) for pid in note.read_text(encoding="utf-8").split()] == [True, True]


def test_one_that_refuses_to_end_is_killed() -> None:
    body = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "sys.stdout.write('ready')\nsys.stdout.flush()\ntime.sleep(600)"
    )
    with pytest.raises(ProgramError):
        _run(body, limit_s=1)


def test_a_ctrl_c_ends_it_too(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def interrupt() -> None:
        if note.exists() and note.read_text(encoding="utf-8"):
            raise KeyboardInterrupt

    body = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(KeyboardInterrupt):
        _run(body, interrupt)
    assert _is_gone(int(note.read_text(encoding="utf-8")))


def test_one_that_cannot_be_started_is_named() -> None:
    with pytest.raises(ProgramError, match="/nowhere/x cannot be started: No such file"):
        run_beside(["/nowhere/x"], ENVIRONMENT, 1, lambda: None)


def test_one_that_prints_without_end_is_ended() -> None:
    """It would take all memory before its time is up."""
    with pytest.raises(ProgramError, match="printed more than 16 MiB"):
        _run("while True: print('x' * 65536)")


def test_one_that_has_ended_is_not_waited_for_because_of_what_it_left(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    body = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\nprint('done')"
    )
    assert _run(body) == Finished(0, "done\n", "")
    assert _is_gone(int(note.read_text(encoding="utf-8")))


def test_what_it_started_is_killed_though_it_ended_when_asked(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    stubborn = (
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    )
    body = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {stubborn!r}]).wait()"

    def interrupt() -> None:
        if note.exists() and note.read_text(encoding="utf-8"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run(body, interrupt)
    assert _is_gone(int(note.read_text(encoding="utf-8")))
