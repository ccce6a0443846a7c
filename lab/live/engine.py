"""The engine under test: `vllm serve` on loopback, without weights and without a GPU."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from lab.live.install import Prepared
from stallscope.errors import StallscopeError

MODEL = "tiny-qwen2"
_READY_S = 300.0
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


class Engine:
    """A running vLLM; use as a context manager.

    Args:
        prepared: Its environment and model.
        port: Loopback port to serve on.
        log: File for its output.
    """

    def __init__(self, prepared: Prepared, port: int, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self._log = log
        self._command = [
            str(prepared.python.with_name("vllm")), "serve", str(prepared.model),
            "--served-model-name", MODEL, "--load-format", "dummy", "--dtype", "bfloat16",
            "--max-model-len", "2048", "--max-num-seqs", "16", "--enforce-eager",
            "--host", "127.0.0.1", "--port", str(port),
        ]  # fmt: skip

    def __enter__(self) -> Self:
        with self._log.open("wb") as sink:
            self._process = subprocess.Popen(
                self._command,
                stdout=sink,
                stderr=sink,
                env={**os.environ, **_ENVIRONMENT},
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait_healthy(self) -> float:
        """Wait until it answers /health and return how many seconds that took.

        Raises:
            StallscopeError: It ended, or does not get healthy.
        """
        begin = time.monotonic()
        while time.monotonic() - begin < _READY_S and self._process.poll() is None:
            if _is_healthy(self.url):
                return time.monotonic() - begin
            time.sleep(0.5)
        raise StallscopeError("the engine does not start", f"See {self._log}")

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


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2):  # noqa: S310 - loopback
            return True
    except (OSError, urllib.error.HTTPError):
        return False
