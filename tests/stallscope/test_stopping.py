"""Signals become an event; progress is told only to people."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time

import pytest

from stallscope.commands import progress as progress_module
from stallscope.commands.progress import progress
from stallscope.supervisor import SUPERVISOR
from tests.project.checkout import REPO

_WAITS = """
import sys, time
from stallscope.commands.stopping import stop_on_signals
stop = stop_on_signals()
print("ready", flush=True)
try:
    stop.wait(20)
    print("stopped", flush=True)
    time.sleep(20 if "busy" in sys.argv else 0)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def _waiting(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*words[:1], sys.executable, "-c", _WAITS, *words[1:]]
        if words[:1] == ("nohup",)
        else [sys.executable, "-c", _WAITS, *words],
        cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_sets_the_event(number: signal.Signals) -> None:
    with _waiting() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.read() == "stopped\n"
    assert process.returncode == 0


def test_a_second_interrupt_does_not_wait_for_the_work() -> None:
    with _waiting("busy") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopped\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted\n"


def test_a_hangup_that_nohup_ignores_stays_ignored() -> None:
    with _waiting("nohup") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        assert process.poll() is None
        process.terminate()
        assert process.stdout.read() == "stopped\n"


def test_a_child_whose_supervisor_is_gone_already_ends_at_once() -> None:
    nobody = "1"  # the process that orphans are handed to
    program = (
        "from stallscope.commands.stopping import follow_supervisor\n"
        "follow_supervisor()\nprint('runs on')"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPO,
        env={**os.environ, SUPERVISOR: nobody},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (-signal.SIGTERM, "")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_long_work_tells_a_terminal_how_long_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress_module, "_SILENT_S", 0.01)
    monkeypatch.setattr(progress_module, "_EVERY_S", 0.01)
    with progress("query", 60):
        time.sleep(0.2)
    assert "\rquery: 0 of at most 60 s, Ctrl-C stops" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_short_work_and_programs_are_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, pipe = _Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("query"):
            pass
        assert stream.getvalue() == ""
