"""Starting, watching and killing processes of a trial."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from lab.crash.plan import Plan
from stallscope.errors import StallscopeError

_ROOT = Path(__file__).resolve().parents[2]


def child_environment() -> dict[str, str]:
    """Return an environment in which a child finds our packages, installed or not."""
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class FeederProcess:
    """A running `lab.crash.feeder`.

    Args:
        plan: What it does.
        log: File that its stderr goes to.
    """

    def __init__(self, plan: Plan, log: Path) -> None:
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lab.crash.feeder", plan.to_text()],
                stdout=subprocess.PIPE,
                stderr=sink,
                env=child_environment(),
            )
        self._log = log

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def is_running(self) -> bool:
        """Return whether it has not ended."""
        return self._process.poll() is None

    def wait_ready(self) -> None:
        """Wait until it has the lake open.

        Raises:
            StallscopeError: It ended before.
        """
        if self._output().readline() != b"ready\n":
            self._process.wait()
            raise StallscopeError("a feeding process did not start", f"See {self._log}")

    def kill(self) -> None:
        """Kill it with SIGKILL and reap it."""
        self._process.kill()
        self._process.wait()
        self._output().close()

    def finish(self, timeout_s: float = 120) -> None:
        """Wait for its orderly end.

        Raises:
            StallscopeError: It failed, or does not end.
        """
        try:
            self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        if self._process.returncode != 0:
            raise StallscopeError(
                f"a feeding process ended with {self._process.returncode}", f"See {self._log}"
            )

    def _output(self) -> IO[bytes]:
        if self._process.stdout is None:  # never: it was started with a pipe
            raise StallscopeError("the feeding process has no output")
        return self._process.stdout
