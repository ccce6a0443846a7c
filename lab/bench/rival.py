"""node_exporter and Prometheus from Debian, on loopback, over the same host and engine page."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Self

from lab.bench.meter import Usage, read_usage
from stallscope.errors import StallscopeError

PROGRAMS = ("prometheus", "prometheus-node-exporter", "promtool")
_READY_S = 20.0


def why_no_rival() -> str:
    """Return what is missing here, or an empty string."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{', '.join(missing)} not installed: run tools/test-tools" if missing else ""


def free_port() -> int:
    """Return a loopback port that is free right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Prometheus:
    """A running Prometheus; use as a context manager.

    Args:
        folder: For its configuration, its data and its log.
        scrapes: Configuration of its scrapes, as YAML list items; empty for none.
    """

    def __init__(self, folder: Path, scrapes: str = "") -> None:
        self.data = folder / "tsdb"
        self._port = free_port()
        self._folder = folder
        config = folder / "prometheus.yml"
        config.write_text(f"scrape_configs:\n{scrapes}" if scrapes else "{}\n", encoding="utf-8")
        self._command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={self.data}",
            "--storage.tsdb.retention.time=30d",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]

    def __enter__(self) -> Self:
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        self._wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def usage(self) -> Usage:
        """Return what it has used."""
        return read_usage(self._process.pid)

    def query_ms(self, query: str, when_s: float) -> float:
        """Return how many milliseconds an instant query takes, HTTP included.

        Raises:
            StallscopeError: It has no answer.
        """
        begin = time.perf_counter()
        answer = self._get("/api/v1/query", {"query": query, "time": f"{when_s:.3f}"})
        took_ms = (time.perf_counter() - begin) * 1_000
        if not answer["data"]["result"]:
            raise StallscopeError(f"Prometheus has no data for {query}")
        return took_ms

    def _get(
        self, path: str, arguments: dict[str, str]
    ) -> dict[str, dict[str, list[dict[str, list[str]]]]]:
        url = f"http://127.0.0.1:{self._port}{path}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=60) as response:
            answer: dict[str, dict[str, list[dict[str, list[str]]]]] = json.load(response)
        return answer

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline:
            try:
                self._get("/api/v1/query", {"query": "1"})
                return
            except OSError:
                time.sleep(0.05)
        raise StallscopeError("Prometheus does not start", f"See {self._folder}/prometheus.log")


class NodeExporter:
    """A running node_exporter with only the collectors whose signals we have too.

    Args:
        proc: Root of the proc file system.
        sys: Root of the sys file system.
    """

    def __init__(self, proc: Path, sys: Path) -> None:
        self.port = free_port()
        self._command = [
            "prometheus-node-exporter",
            f"--path.procfs={proc}",
            f"--path.sysfs={sys}",
            "--collector.disable-defaults",
            "--collector.diskstats",
            "--collector.pressure",
            "--collector.meminfo",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def usage(self) -> Usage:
        """Return what it has used."""
        return read_usage(self._process.pid)


def scrape_config(job: str, port: int, interval_ms: int) -> str:
    """Return one scrape as a YAML list item."""
    return (
        f"  - job_name: {job}\n    scrape_interval: {interval_ms}ms\n"
        f"    scrape_timeout: {interval_ms}ms\n"
        f"    static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n"
    )


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
