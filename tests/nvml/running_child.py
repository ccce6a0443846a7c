"""The child program over the make-believe driver, as its parent sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from collector.nvml.messages import (
    Greeting,
    LinkAnswer,
    LinkSample,
    StateAnswer,
    StateSample,
    decode,
)
from lab.nvml.control import Group
from lab.nvml.driver import FakeDriver
from lab.nvml.gpu import FakeGpu

PROGRAM = """
import os, sys
from collector.nvml.__main__ import main
os._exit(main({release!r}))
"""
GPM_PAUSE_S = 0.12  # GPM needs more than 100 ms between two samples
_PATIENCE_S = 20.0

Answer = TypeVar("Answer", Greeting, LinkAnswer, StateAnswer)


class RunningChild:
    """One child from its start to its end; killed when it takes too long.

    Args:
        driver: The machine.
        program: What the interpreter runs; the child program by default.
        environment: More variables.
        hear: Wait for its greeting.
    """

    def __init__(
        self,
        driver: FakeDriver,
        program: str | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        hear: bool = True,
    ) -> None:
        arguments = ["-m", "collector.nvml"] if program is None else ["-c", program]
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **driver.environment, **(environment or {})},
        )
        self._watchdog = threading.Timer(_PATIENCE_S, self.process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()
        self.greeting = self._hear(Greeting) if hear else Greeting()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def link(self) -> LinkAnswer:
        """Ask for the links."""
        return self._ask("link", LinkAnswer)

    def state(self) -> StateAnswer:
        """Ask for the states."""
        return self._ask("state", StateAnswer)

    def hear_link(self) -> LinkAnswer:
        """Return the links that were asked for with `say`."""
        return self._hear(LinkAnswer)

    def first_link(self) -> LinkSample:
        """Ask for the links and return the one of the first GPU."""
        return self.link().samples[0]

    def first_state(self) -> StateSample:
        """Ask for the states and return the one of the first GPU."""
        return self.state().samples[0]

    def links_apart(self, count: int, pause_s: float = GPM_PAUSE_S) -> list[LinkSample]:
        """Return samples of the first GPU, each some time after the one before."""
        samples = []
        for _ in range(count):
            time.sleep(pause_s)
            samples.append(self.first_link())
        return samples

    def say_and_wait(self, line: str, gpu: FakeGpu, group: Group) -> None:
        """Write a line and wait until the child is inside a call of a group."""
        calls = gpu.group_calls(group)
        self.say(line)
        while gpu.group_calls(group) == calls:
            time.sleep(0.001)

    def say(self, line: str) -> None:
        """Write a line to it."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def signal(self, number: signal.Signals) -> int:
        """Send a signal and return how the child ended."""
        self.process.send_signal(number)
        return self.process.wait()

    def end(self) -> int:
        """Close its input and return how it ended."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        status = self.process.wait()
        self._watchdog.cancel()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return status

    def errors(self) -> str:
        """Return what it complained about, once it has ended."""
        self.process.wait()
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def _ask(self, line: str, kind: type[Answer]) -> Answer:
        self.say(line)
        return self._hear(kind)

    def _hear(self, kind: type[Answer]) -> Answer:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors()
        return decode(kind, line)
