"""A child program that answers lines with lines: asked with a deadline, and ended for good.

The child has a session of its own, so that a Ctrl-C at the terminal reaches us alone and the child
is asked to end. When we are gone it reads the end of its input.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

_CHUNK_BYTES = 65_536
_LONGEST_LINE_BYTES = 8 << 20
_TAIL_BYTES = 2_048
_TOLD_CHARACTERS = 300
_END_S = 2.0
_KILL_S = 1.0


class ChildError(Exception):
    """The child does not answer, and will not; the message says why."""


class ChildSilentError(ChildError):
    """The child is there but did not answer in time."""


class ChildProcess:
    """One running child; its methods are called by one thread at a time.

    Args:
        command: Program and arguments.
        environment: Its environment; None for our own.

    Raises:
        ChildError: It cannot be started.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None) -> None:
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            msg = f"{command[0]} cannot be started: {error.strerror}"
            raise ChildError(msg) from error
        self._input, self._output, self._errors = _pipes(self._process)
        self._line = bytearray()
        self._tail = bytearray()
        self._poll = select.poll()  # not select(): it refuses descriptors above 1023
        for pipe in (self._output, self._errors):
            os.set_blocking(pipe.fileno(), False)
            self._poll.register(pipe, select.POLLIN)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, line: bytes, patience_s: float) -> bytes:
        """Return the line that answers a line.

        Raises:
            ChildSilentError: It did not answer in time; what it says later would answer a question
                that nobody asks any more, so it has to be ended.
            ChildError: It ended, says what is no line, or spoke without being asked: then no answer
                would belong to its question.
        """
        if self._line:
            raise ChildError(f"it spoke unasked: {bytes(self._line[:80])!r}")
        try:
            self._input.write(line)
        except OSError as error:
            raise ChildError(self._describe_end()) from error
        return self.listen(patience_s)

    def listen(self, patience_s: float) -> bytes:
        """Return the next line it says.

        Raises:
            ChildSilentError: Nothing came in time; it may be listened to again.
            ChildError: It ended, or says what is no line.
        """
        give_up = time.monotonic() + patience_s
        left_s = patience_s
        while b"\n" not in self._line:
            self._receive(max(0.0, left_s))
            if left_s <= 0 and b"\n" not in self._line:
                raise ChildSilentError(f"no answer within {patience_s:g} s{self._last_words()}")
            left_s = give_up - time.monotonic()
        line, _, rest = bytes(self._line).partition(b"\n")
        self._line[:] = rest
        return line

    def end(self) -> bool:
        """Ask it to end, by the end of its input and SIGTERM; kill it when it does not.

        Returns:
            Whether it is gone; see `kill`.
        """
        with suppress(OSError):
            self._input.close()
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        return self.kill()

    def kill(self) -> bool:
        """End it at once and give back all that belongs to it.

        Returns:
            False when it lives on because it hangs inside the kernel; see `is_gone`.
        """
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_S)
        for pipe in (self._input, self._output, self._errors):
            with suppress(OSError):
                pipe.close()
        return self.is_gone()

    def is_gone(self) -> bool:
        """Return whether it has ended; one that has leaves no zombie behind."""
        return self._process.poll() is not None

    def _receive(self, patience_s: float) -> None:
        """Take in what it says on either pipe, waiting for it if need be.

        Raises:
            ChildError: Its output has ended, or a line of it does not.
        """
        for descriptor, _ in self._poll.poll(patience_s * 1_000):
            data = _read(descriptor)
            if data is None:
                continue
            if descriptor == self._errors.fileno():
                self._hear_error(data)
            elif data:
                self._line += data
            else:
                raise ChildError(self._describe_end())
        if len(self._line) > _LONGEST_LINE_BYTES:
            raise ChildError(f"it says more than {_LONGEST_LINE_BYTES} bytes without an end")

    def _hear_error(self, data: bytes) -> None:
        """Keep the end of what it complains about."""
        if not data:
            self._poll.unregister(self._errors)
        self._tail += data
        del self._tail[:-_TAIL_BYTES]

    def _describe_end(self) -> str:
        """Return how it ended, with its last words."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_S)
        with suppress(OSError):
            self._tail += os.read(self._errors.fileno(), _CHUNK_BYTES)
        status = self._process.returncode
        if status is None:
            return f"it closed its output{self._last_words()}"
        if status < 0:
            return f"it was ended by {_signal_name(-status)}{self._last_words()}"
        return f"it ended with status {status}{self._last_words()}"

    def _last_words(self) -> str:
        words = " ".join(self._tail[-_TAIL_BYTES:].decode("utf-8", "replace").split())
        return f"; it said: {words[-_TOLD_CHARACTERS:]}" if words else ""


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise ChildError("it has no pipes")
    return process.stdin, process.stdout, process.stderr


def _read(descriptor: int) -> bytes | None:
    """Return what is there to read: nothing at the end of the pipe, None when it is too early."""
    try:
        return os.read(descriptor, _CHUNK_BYTES)
    except BlockingIOError:  # poll() may report what is gone again
        return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
