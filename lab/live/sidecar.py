"""The collector beside the engine: `stallscope collect` in a process of its own."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from lab.bench.rival import free_port
from lab.crash.child import child_environment
from stallscope.errors import LakeError, StallscopeError
from stallscope.storage.reader import Lake

_READY_S = 30.0


class Sidecar:
    """A collector that reads one engine's page and hears its taps; use as a context manager.

    Its pages are read every second although a tap tells more: the two are compared.

    Args:
        folder: For its settings and its log.
        lake: Its lake.
        engine_url: Engine to read.
        tap_socket: Where taps deliver.
    """

    def __init__(self, folder: Path, lake: Path, engine_url: str, tap_socket: Path) -> None:
        self.lake = lake
        self.log = folder / "collect.log"
        self._socket = tap_socket
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._settings = folder / "stallscope.toml"
        self._settings.write_text(
            f'[lake]\npath = "{self.lake}"\n[collect]\nlisten_port = {free_port()}\n'
            "[sources]\ntapped_scrape_interval_ms = 1000\n"
            f'[taps]\nsocket = "{tap_socket}"\nstore_request_ids = true\n'
            f'[[engines]]\nname = "live"\nurl = "{engine_url}"\n',
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    def start(self) -> None:
        """Start it, and wait until it listens.

        Raises:
            StallscopeError: It does not.
        """
        command = [sys.executable, "-m", "stallscope.cli", "collect", "--config"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._settings)], stdout=log, stderr=log, env=child_environment()
            )
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline and self.is_running():
            if _has_listener(self._socket):
                return
            time.sleep(0.1)
        raise StallscopeError("collect does not start", f"See {self.log}")

    def is_running(self) -> bool:
        """Return whether it has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill it with SIGKILL and reap it, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """End it in order.

        Raises:
            StallscopeError: It did not end well.
        """
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(timeout=60)
        if status != 0:
            raise StallscopeError(f"collect ended with {status}", f"See {self.log}")

    def wait_rows(self, *tables: str) -> None:
        """Wait until each of the tables has rows.

        Raises:
            StallscopeError: One has none.
        """
        deadline = time.monotonic() + _READY_S
        missing = list(tables)
        while missing and time.monotonic() < deadline:
            time.sleep(0.2)
            with contextlib.suppress(LakeError):  # not made yet
                missing = [name for name in missing if not Lake(self.lake).entries([name])]
        if missing:
            raise StallscopeError(f"no row of {missing[0]} reached the lake", f"See {self.log}")


def _has_listener(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
