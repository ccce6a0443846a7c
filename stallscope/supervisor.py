"""Keeps programs running: starts them, passes their lines on, restarts what ends, stops all.

Children are in process groups of their own, so that a Ctrl-C in the terminal reaches only the
supervisor, which then ends them in order; should the whole session get the signal, they get it
twice, which is no harm. They ask the kernel to end them when the supervisor is killed
(`stallscope.commands.stopping.follow_supervisor`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, BinaryIO

from stallscope.ports import answers, why_not_free

SUPERVISOR = "STALLSCOPE_SUPERVISOR"
"""Environment variable with the supervisor's process id, for its children."""

_TICK_S = 0.25
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_PATIENCE_S = 8.0
_LONGEST_LINE = 16_384
_NAME_WIDTH = 9


@dataclass(frozen=True, slots=True)
class Program:
    """One program to keep running.

    Attributes:
        name: In front of its lines.
        command: Program and arguments.
        address: Where it listens.
        port: Port it listens on.
        health: Path that answers 200 when it is up.
        announcement: Told when it is up.
        setting: Name of the setting of the port.
        needs_port: Whether it is of no use without its port.
    """

    name: str
    command: tuple[str, ...]
    address: str
    port: int
    health: str
    announcement: str
    setting: str
    needs_port: bool


class Supervisor:
    """Runs programs until told to stop.

    Args:
        programs: What to run.
        out: Gets every line, its own and the programs'.
        patience_s: Seconds that programs get to end before they are killed.
        first_pause_s: Seconds before the first restart; doubled each time up to a minute.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        out: BinaryIO,
        *,
        patience_s: float = _PATIENCE_S,
        first_pause_s: float = _FIRST_PAUSE_S,
    ) -> None:
        self._lines = _Lines(out)
        self._patience_s = patience_s
        self._children = [_Child(program, self._lines, first_pause_s) for program in programs]

    def say(self, line: str) -> None:
        """Print a line of the supervisor itself."""
        self._lines.write("up", line)

    def run(self, stop: threading.Event) -> int:
        """Keep the programs running until ``stop`` is set, end them, and return 0.

        Must be called on the main thread: children end with the thread that started them.
        """
        self.say("Ctrl-C stops")
        try:
            while not stop.is_set():
                for child in self._children:
                    child.attend()
                stop.wait(_TICK_S)
        finally:
            self._end()
        return 0

    def _end(self) -> None:
        self.say("stopping")
        for child in self._children:
            child.ask_to_end()
        deadline = time.monotonic() + self._patience_s
        for child in self._children:
            child.end_by(deadline)
        self.say("stopped")


class _Lines:
    """Whole lines to one output, from several threads."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def write(self, name: str, line: str) -> None:
        """Write a line; when nobody reads any more the programs run on all the same."""
        data = f"{name:{_NAME_WIDTH}} | {line}\n".encode("utf-8", "replace")
        with self._lock:
            try:
                self._out.write(data)
                self._out.flush()
            except (OSError, ValueError):
                return


class _Child:
    """One program and its life: waiting for its next start, running, up."""

    def __init__(self, program: Program, lines: _Lines, first_pause_s: float) -> None:
        self._program = program
        self._lines = lines
        self._first_pause_s = first_pause_s
        self._pause_s = first_pause_s
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._start_at = 0.0
        self._started_at = 0.0
        self._wants_announcement = False
        self._complained_about = ""

    def attend(self) -> None:
        """Start it when it is time, notice its end, tell when it is up."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._start_at:
                self._start(now)
            return
        code = self._process.poll()
        if code is not None:
            self._note_end(code, now)
        elif self._wants_announcement:
            self._announce()

    def ask_to_end(self) -> None:
        """Send SIGTERM when it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def end_by(self, deadline: float) -> None:
        """Wait for its end; kill it and what it started at the deadline."""
        if self._process is None:
            return
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._say("does not end and is killed")
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._reader is not None:
            self._reader.join(1.0)

    def _start(self, now: float) -> None:
        taken = why_not_free(self._program.address, self._program.port)
        if taken:
            self._complain(taken)
            if self._program.needs_port:
                self._wait(now)
                return
        else:
            self._complained_about = ""
        try:
            self._process = _spawn(self._program.command)
        except OSError as error:
            self._say(f"cannot be started: {error.strerror}")
            self._wait(now)
            return
        self._started_at = now
        self._wants_announcement = not taken
        self._reader = threading.Thread(
            target=self._pass_on, args=(self._process.stdout,), daemon=True
        )
        self._reader.start()

    def _note_end(self, code: int, now: float) -> None:
        self._process = None
        if now - self._started_at > _LONGEST_PAUSE_S:
            self._pause_s = self._first_pause_s
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        self._say(f"ended with {how}; started again in {self._pause_s:g} s")
        self._wait(now)

    def _wait(self, now: float) -> None:
        self._start_at = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _announce(self) -> None:
        program = self._program
        if answers(program.address, program.port, program.health):
            self._wants_announcement = False
            self._lines.write("up", program.announcement)

    def _complain(self, taken: str) -> None:
        """Name a taken port once; it is tried again in silence."""
        if taken != self._complained_about:
            rest = "it waits, the rest runs" if self._program.needs_port else "it runs without"
            self._say(f"{taken}; {rest}. Choose another {self._program.setting}")
        self._complained_about = taken

    def _say(self, line: str) -> None:
        self._lines.write("up", f"{self._program.name}: {line}")

    def _pass_on(self, pipe: IO[bytes]) -> None:
        """Give its lines our prefix; ends with the program."""
        with pipe:
            while line := pipe.readline(_LONGEST_LINE):
                words = line.decode("utf-8", "replace").rstrip()
                if words:
                    self._lines.write(self._program.name, words)


def _spawn(command: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
        env=_environment(os.environ),
    )


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    return {**ours, "PYTHONUNBUFFERED": "1", SUPERVISOR: str(os.getpid())}
