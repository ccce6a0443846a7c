"""The engine under test: `vllm serve` on loopback, without weights and without a GPU."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from lab.live.install import Prepared
from lab.report import say
from stallscope.errors import StallscopeError

MODEL = "tiny-qwen2"
TAP = "stallscope_vllm.TokenTap"

_READY_S = 400.0
_STOP_S = 30.0
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
_TROUBLE = ("Traceback", "EngineDead", "Exception in ASGI")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What is special about an engine.

    Attributes:
        arguments: More of the command line.
        middleware: Classes around its HTTP server, the outermost last.
        environment: More variables.
    """

    arguments: Sequence[str] = ()
    middleware: Sequence[str] = (TAP,)
    environment: Mapping[str, str] = field(default_factory=dict)


PLAIN = EngineOptions()


class Engine:
    """A running vLLM with both taps; use as a context manager.

    Args:
        prepared: Its environment and model.
        port: Loopback port to serve on.
        log: File for its output.
        options: What is special about it.
    """

    def __init__(
        self, prepared: Prepared, port: int, log: Path, options: EngineOptions = PLAIN
    ) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self._log = log
        self._environment = {**os.environ, **_ENVIRONMENT, **options.environment}
        self._started_bytes = 0
        self._command = [
            str(prepared.python.with_name("vllm")), "serve", str(prepared.model),
            "--served-model-name", MODEL, "--load-format", "dummy", "--dtype", "bfloat16",
            "--max-model-len", "2048", "--max-num-seqs", "16", "--enforce-eager",
            "--host", "127.0.0.1", "--port", str(port), *options.arguments,
            *(word for name in options.middleware for word in ("--middleware", name)),
        ]  # fmt: skip

    def __enter__(self) -> Self:
        with self._log.open("wb") as sink:
            self._process = subprocess.Popen(
                self._command,
                stdout=sink,
                stderr=sink,
                env=self._environment,
                start_new_session=True,  # its workers are ended with it
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(ProcessLookupError):  # none was left behind
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait_healthy(self) -> None:
        """Wait until it answers /health.

        Raises:
            StallscopeError: It ended, or does not get healthy.
        """
        say("starting the engine ...")
        begin = time.monotonic()
        while time.monotonic() - begin < _READY_S and self._process.poll() is None:
            if self.is_healthy():
                self._started_bytes = self._log.stat().st_size
                say(f"healthy after {time.monotonic() - begin:.0f} s")
                return
            time.sleep(0.5)
        raise StallscopeError("the engine does not start", f"See {self._log}")

    def is_healthy(self) -> bool:
        """Return whether it answers /health with 200."""
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2):  # noqa: S310 - loopback
                return True
        except OSError:
            return False

    def read_metrics(self) -> str:
        """Return its own metrics page, text format 0.0.4.

        Raises:
            OSError: It does not answer.
        """
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{self.url}/metrics", headers={"Accept": "text/plain;version=0.0.4"}
        )
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - loopback
            return str(response.read().decode())

    def throw_switch(self, path: str) -> None:
        """POST to a path that a module inside the engine watches for; the server has none there.

        Raises:
            OSError: It does not answer.
        """
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{self.url}{path}", method="POST"
        )
        try:
            urllib.request.urlopen(request, timeout=10).close()  # noqa: S310 - loopback
        except urllib.error.HTTPError as error:
            error.close()

    def find_log_lines(self, *words: str) -> list[str]:
        """Return the lines of its log that have one of the words, since it has been healthy."""
        with self._log.open("rb") as log:
            log.seek(self._started_bytes)
            text = log.read().decode(errors="replace")
        return [line for line in text.splitlines() if any(word in line for word in words)]

    def find_trouble(self) -> list[str]:
        """Return the lines of its log that tell of an exception, since it has been healthy."""
        return self.find_log_lines(*_TROUBLE)
