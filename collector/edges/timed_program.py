"""Running a program that takes seconds: looking on meanwhile, and never leaving it behind."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

_PATIENCE_S = 2.0
_CHUNK_BYTES = 65_536
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Finished:
    """What a program left.

    Attributes:
        status: Exit status; negative is the signal that ended it.
        output: What it wrote to stdout.
        errors: What it wrote to stderr.
    """

    status: int
    output: str
    errors: str


class ProgramError(Exception):
    """A program could not be started, or took or said too much and was ended."""


def run_beside(
    words: Sequence[str],
    environment: Mapping[str, str],
    limit_s: float,
    meanwhile: Callable[[], None],
    every_s: float = 0.25,
) -> Finished:
    """Run a program to its end and call ``meanwhile`` every so often.

    The program has a process group of its own. It is ended, and with it what it started, when the
    time is up and when ``meanwhile`` or a Ctrl-C raises.

    Raises:
        ProgramError: It could not be started, took too long or printed too much.
    """
    try:
        process = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        msg = f"{words[0]} cannot be started: {error.strerror}"
        raise ProgramError(msg) from error
    try:
        return _watch(process, words[0], limit_s, meanwhile, every_s)
    finally:
        _end(process)


def _watch(
    process: subprocess.Popen[bytes],
    name: str,
    limit_s: float,
    meanwhile: Callable[[], None],
    every_s: float,
) -> Finished:
    deadline = time.monotonic() + limit_s
    next_look = time.monotonic() + every_s
    with selectors.DefaultSelector() as selector:
        output, errors = (_Spoken(name, selector, pipe) for pipe in _pipes(process))
        while time.monotonic() < deadline:
            _listen(selector, max(0.0, next_look - time.monotonic()))
            if process.poll() is not None:  # what it started may live on and keep its pipes
                while _listen(selector, 0):
                    continue
                return Finished(process.returncode, output.text(), errors.text())
            if time.monotonic() >= next_look:
                meanwhile()
                next_look = time.monotonic() + every_s
    msg = f"{name} did not end within {limit_s:.0f} s"
    raise ProgramError(msg)


class _Spoken:
    """What a program says into one pipe."""

    def __init__(self, name: str, selector: selectors.BaseSelector, pipe: IO[bytes]) -> None:
        self._name = name
        self._selector = selector
        self._pipe = pipe
        self._data = bytearray()
        selector.register(pipe, selectors.EVENT_READ, self)

    def take(self) -> None:
        """Take in what is there.

        Raises:
            ProgramError: It is more than any program has to say.
        """
        data = os.read(self._pipe.fileno(), _CHUNK_BYTES)
        if not data:
            self._selector.unregister(self._pipe)
        self._data += data
        if len(self._data) > _MOST_BYTES:
            msg = f"{self._name} printed more than {_MOST_BYTES >> 20} MiB"
            raise ProgramError(msg)

    def text(self) -> str:
        """Return all of it."""
        return self._data.decode("utf-8", "replace")


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdout is None or process.stderr is None:
        raise ProgramError("it has no pipes")
    return process.stdout, process.stderr


def _listen(selector: selectors.BaseSelector, patience_s: float) -> bool:
    """Take in what is said; returns whether anything was, the end of a pipe included."""
    ready = selector.select(patience_s)
    for key, _ in ready:
        key.data.take()
    return bool(ready)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process group: asked first, then killed, also where only what it started is left.

    One that cannot be killed is left alone.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_S)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
