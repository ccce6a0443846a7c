"""The load on a GPU, in a program of its own: given orders, and asked what it did."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from collector.calibration.copy_tool import SCRIPT as COPY_LINK
from lab.hardware import load_script

_SCRIPT = Path(load_script.__file__)
_PATIENCE_S = 5.0


class LoadError(Exception):
    """There is no load; the message says why."""


class Carried(NamedTuple):
    """What a load copied.

    Attributes:
        size_bytes: Bytes copied.
        seconds: How long it took.
    """

    size_bytes: int
    seconds: float

    @property
    def bytes_per_second(self) -> float:
        """Mean rate."""
        return self.size_bytes / self.seconds


class Load:
    """A running load program; use as a context manager.

    Args:
        python: Python that has PyTorch or CuPy.
        environment: Its environment; it sees one GPU.
    """

    def __init__(self, python: str, environment: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _end
        try:
            self._process = subprocess.Popen(
                [python, str(_SCRIPT), str(COPY_LINK)],
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        except OSError as error:
            self._errors.close()
            raise LoadError(f"{python} cannot be started: {error.strerror}") from error
        self.library = ""

    def __enter__(self) -> Self:
        """Wait until it is ready.

        Raises:
            LoadError: It is not going to be.
        """
        try:
            told = self._listen()
        except LoadError:
            self._end()
            raise
        self.library = f"{told['library']} {told['version']}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        self._end()

    def copy(self, direction: str, size: int, count: int) -> Carried:
        """Copy ``count`` times ``size`` bytes and return when that is done.

        Raises:
            LoadError: It failed.
        """
        self._order({"do": "copy", "direction": direction, "size": size, "count": count})
        return self.carried()

    def begin(self, direction: str, seconds: float) -> None:
        """Begin to copy for so long; `carried` waits for the end.

        Raises:
            LoadError: It is gone.
        """
        self._order({"do": "load", "direction": direction, "seconds": seconds})

    def carried(self) -> Carried:
        """Return what was copied by the order before, once it is done.

        Raises:
            LoadError: It failed.
        """
        told = self._listen()
        return Carried(told["bytes"], (told["ended_ns"] - told["began_ns"]) / 1e9)

    def begin_decoding(self, seconds: float) -> None:
        """Begin to decode for so long; `steps_us` waits for the end.

        Raises:
            LoadError: It is gone.
        """
        self._order({"do": "decode", "seconds": seconds})

    def steps_us(self) -> list[float]:
        """Return how long each step took, once decoding has ended.

        Raises:
            LoadError: It failed.
        """
        return [float(step) for step in self._listen()["steps_us"]]

    def _order(self, order: Mapping[str, object]) -> None:
        try:
            self._pipe_in().write(json.dumps(order).encode() + b"\n")
            self._pipe_in().flush()
        except OSError as error:
            raise LoadError(self._last_words()) from error

    def _listen(self) -> dict[str, Any]:
        stdout = self._process.stdout
        line = stdout.readline() if stdout is not None else b""
        if not line:
            raise LoadError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _pipe_in(self) -> Any:  # noqa: ANN401 - a pipe of bytes; None only by its declared type
        return self._process.stdin

    def _last_words(self) -> str:
        status = self._process.wait(_PATIENCE_S)
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"the load ended with status {status}: {lines[-1][:200] if lines else 'no word'}"

    def _end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # an order that it did not live to read
                    pipe.close()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()
