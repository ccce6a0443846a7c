"""The collector's side of the NVML child: starts it, asks it, ends it, starts it anew.

NVML may crash the process that loads it (XuehaiPan/nvitop#139), hang in it (NVIDIA/go-nvml#152) or
keep the library of a driver that is no longer loaded: it costs a child then, not the collector.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from collector.edges.child_process import ChildError, ChildProcess, ChildSilentError
from collector.nvml.messages import (
    Ask,
    Greeting,
    LinkAnswer,
    MessageError,
    StateAnswer,
    Trouble,
    TroubleKind,
    decode,
)
from stallscope.clock import Clock, SystemClock
from stallscope.errors import StallscopeError
from stallscope.units import US_PER_SECOND

_LOG = logging.getLogger("stallscope.collect")

# -P: a file of the working directory must not pass for one of our packages.
COMMAND = (sys.executable, "-P", "-m", "collector.nvml")
"""How the child is started."""

_FIRST_BACKOFF_US = US_PER_SECOND
_LONGEST_BACKOFF_US = 60 * US_PER_SECOND
_PROVEN_US = 60 * US_PER_SECOND
_MOST_ABANDONED = 3

_Answer = TypeVar("_Answer", LinkAnswer, StateAnswer)


class NoAnswerError(StallscopeError):
    """There is no answer.

    Args:
        trouble: Why.
    """

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.text, "See: stallscope doctor")
        self.trouble = trouble


class Child(Protocol):
    """What is needed of a child; `ChildProcess` is one."""

    def ask(self, line: bytes, patience_s: float) -> bytes:
        """Return the answer to a line."""

    def listen(self, patience_s: float) -> bytes:
        """Return what it says by itself."""

    def end(self) -> bool:
        """End it in peace; returns whether it is gone."""

    def kill(self) -> bool:
        """End it at once; returns whether it is gone."""

    def is_gone(self) -> bool:
        """Return whether it has ended."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the child may take, in seconds.

    Attributes:
        greeting: How long one question waits for a child that is starting. NVML takes 10 ms, but
            seconds where no persistence daemon keeps the driver loaded.
        start: After this long a start hangs.
        answer: For an answer; the child itself gives up on a GPU after 0.4 s.
    """

    greeting: float = 8.0
    start: float = 30.0
    answer: float = 2.0


@dataclass(slots=True)
class _Life:
    """One child from its start to its end."""

    child: Child
    began_us: int
    greeting: Greeting | None = None


class NvmlProcess:
    """The NVML child of this process, shared by all who ask it; safe for their threads.

    It is started by the first question. After a failure it is started again, not sooner than
    1, 2, 4 ... 60 s after the start before; one that served for a minute starts over at 1 s.

    Args:
        command: How to start the child.
        environment: Its environment; None for our own.
        clock: Paces starts.
        patience: How long the child may take.
        spawn: Starts a child by command and environment.
    """

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        environment: Mapping[str, str] | None = None,
        *,
        clock: Clock | None = None,
        patience: Patience | None = None,
        spawn: Callable[[Sequence[str], Mapping[str, str] | None], Child] = ChildProcess,
    ) -> None:
        self._command = command
        self._environment = environment
        self._clock = clock or SystemClock()
        self._patience = patience or Patience()
        self._spawn = spawn
        self._lock = threading.Lock()
        self._life: _Life | None = None
        self._backoff_us = _FIRST_BACKOFF_US
        self._next_start_us = 0
        self._trouble = Trouble(TroubleKind.FAILED, "NVML was not asked yet")
        self._abandoned: list[Child] = []
        self._users = 0

    def join(self) -> NvmlProcess:
        """Note one more user, who calls `leave` in the end."""
        with self._lock:
            self._users += 1
        return self

    def leave(self) -> None:
        """Note that a user needs it no more; the last one ends the child."""
        with self._lock:
            self._users -= 1
            if self._users <= 0:
                self._rest()

    def greet(self) -> Greeting:
        """Return what the child that runs now said first, starting one if there is none.

        What it has found out about its GPUs since is in it.

        Raises:
            NoAnswerError: NVML does not serve.
        """
        with self._lock:
            return self._ready()[1]

    def ask_link(self) -> LinkAnswer:
        """Return what the links carried since the answer before.

        Raises:
            NoAnswerError: NVML does not serve, or the child had to be ended.
        """
        return self._ask(Ask.LINK, LinkAnswer)

    def ask_state(self) -> StateAnswer:
        """Return the states of the GPUs.

        Raises:
            NoAnswerError: NVML does not serve, or the child had to be ended.
        """
        return self._ask(Ask.STATE, StateAnswer)

    def rest(self) -> None:
        """End the child in peace, so that nothing of ours holds the driver; a question starts one.

        An idle holder of the device keeps others from resetting it (NVIDIA/dcgm-exporter#706).
        """
        with self._lock:
            self._rest()

    def close(self) -> None:
        """End the child, whoever still uses it."""
        self.rest()

    def _ask(self, what: Ask, kind: type[_Answer]) -> _Answer:
        with self._lock:
            life, greeting = self._ready()
            try:
                line = life.child.ask(f"{what.value}\n".encode(), self._patience.answer)
                answer = decode(kind, line)
            except (ChildError, MessageError) as error:
                raise self._failed(_describe(error)) from error
            if answer.trouble is not None:
                raise self._failed(answer.trouble, is_ending=True)
            if answer.gpus:
                life.greeting = replace(greeting, gpus=answer.gpus)
            return answer

    def _ready(self) -> tuple[_Life, Greeting]:
        """Return the child that runs and its greeting, starting one when it is time to.

        Raises:
            NoAnswerError: NVML does not serve, the child is not ready, or it is too soon to try.
        """
        life = self._life or self._start()
        if life.greeting is None:
            life.greeting = self._hear_greeting(life)
        return life, life.greeting

    def _start(self) -> _Life:
        now_us = self._clock.now().mono_us
        self._abandoned = [child for child in self._abandoned if not child.is_gone()]
        if len(self._abandoned) >= _MOST_ABANDONED:
            text = f"{len(self._abandoned)} NVML children hang in the driver and cannot be ended"
            raise NoAnswerError(Trouble(TroubleKind.FAILED, f"{text}: the host needs a restart"))
        if now_us < self._next_start_us:
            raise NoAnswerError(self._trouble)
        try:
            child = self._spawn(self._command, self._environment)
        except ChildError as error:
            self._back_off(now_us, now_us)
            self._trouble = _describe(error)
            raise NoAnswerError(self._trouble) from error
        self._life = _Life(child, now_us)
        return self._life

    def _hear_greeting(self, life: _Life) -> Greeting:
        age_s = (self._clock.now().mono_us - life.began_us) / US_PER_SECOND
        try:
            line = life.child.listen(max(0.0, self._patience.greeting - age_s))
            greeting = decode(Greeting, line)
        except ChildSilentError as error:
            if age_s < self._patience.start:
                text = f"NVML is still starting after {self._patience.greeting:g} s"
                raise NoAnswerError(Trouble(TroubleKind.FAILED, text)) from error
            text = f"NVML did not start within {self._patience.start:g} s"
            raise self._failed(Trouble(TroubleKind.FAILED, text)) from error
        except (ChildError, MessageError) as error:
            raise self._failed(_describe(error)) from error
        if greeting.trouble is not None:
            raise self._failed(greeting.trouble, is_ending=True)
        return greeting

    def _failed(self, trouble: Trouble, *, is_ending: bool = False) -> NoAnswerError:
        """End the child, plan the next one, and return the error to raise.

        Args:
            trouble: What happened.
            is_ending: The child said so itself: it is about to end, after nvmlShutdown.
        """
        self._trouble = trouble
        life, self._life = self._life, None
        if life is not None:
            gone = life.child.end() if is_ending else life.child.kill()
            self._bury(life.child, is_gone=gone)
            self._back_off(life.began_us, self._clock.now().mono_us)
        return NoAnswerError(trouble)

    def _back_off(self, began_us: int, now_us: int) -> None:
        if now_us - began_us >= _PROVEN_US:
            self._backoff_us = _FIRST_BACKOFF_US
        self._next_start_us = began_us + self._backoff_us
        self._backoff_us = min(2 * self._backoff_us, _LONGEST_BACKOFF_US)

    def _rest(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            self._bury(life.child, is_gone=life.child.end())

    def _bury(self, child: Child, *, is_gone: bool) -> None:
        if not is_gone:
            _LOG.warning("an NVML child hangs in the driver and cannot be ended: left behind")
            self._abandoned.append(child)


def _describe(error: Exception) -> Trouble:
    return Trouble(TroubleKind.FAILED, f"the NVML child failed: {error}")
