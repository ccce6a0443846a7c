"""The collector as it is, on a host that was made up; measured from outside.

``python -m lab.bench.collector_child SETTINGS_JSON`` collects until SIGTERM.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from analytics.catalog import library_statements
from collector.collection import Collection, Outlets
from collector.names import StoredNames
from collector.registry import SOURCES, Links, build_source
from collector.runner import CatalogSource
from collector.source import Machine
from stallscope.clock import SystemClock
from stallscope.exposition.page import Page
from stallscope.settings import Settings, load
from stallscope.storage.publisher import Publisher
from stallscope.storage.writer import Writer, WriterOptions

_BURST_S = 60


@dataclass(frozen=True, slots=True)
class Job:
    """What to collect.

    Attributes:
        lake: Folder of the lake.
        proc: Root of a proc file system.
        sys: Root of a sys file system.
        engine_url: Engine to scrape; empty for none.
        tap_socket: Where taps deliver; empty for nowhere.
        burst: Read the GPUs five times a second for a minute.
    """

    lake: str
    proc: str
    sys: str
    engine_url: str = ""
    tap_socket: str = ""
    burst: bool = False

    def to_text(self) -> str:
        """Return the job as one argument."""
        return json.dumps(asdict(self))


def collect(job: Job, stop: threading.Event) -> None:
    """Collect until told to stop, then seal everything; prints what was dropped."""
    clock = SystemClock()
    settings = _settings(job)
    writer = Writer.open(Path(job.lake), "collect", clock=clock, options=WriterOptions(host="lab"))
    names = StoredNames(writer, clock)
    machine = Machine(settings.host.proc, settings.host.sys, "lab", clock, names)
    links = Links()
    sources = [build_source(entry, machine, settings, links) for entry in SOURCES]
    if job.burst:
        links.gpu_requests.burst(_BURST_S, clock.now().mono_us)
    page = Page(names.known, clock, {"version": "lab", "schema_version": "0", "host": "lab"})
    outlets = Outlets(writer.append, page.observe, writer.health, lambda: None)
    publisher = CatalogSource(Publisher(writer.layout, library_statements()), clock)
    collection = Collection([*sources, publisher], outlets, clock)
    try:
        collection.run(stop)
    finally:
        health = writer.health()
        writer.close()
    sys.stdout.write(json.dumps({"dropped": health.dropped_rows, "reason": health.reason}))


def _settings(job: Job) -> Settings:
    file = Path(job.lake).with_suffix(".toml")
    engines = f'[[engines]]\nname = "lab"\nurl = "{job.engine_url}"\n' if job.engine_url else ""
    taps = f'socket = "{job.tap_socket}"' if job.tap_socket else "enabled = false"
    file.write_text(
        f'[host]\nname = "lab"\nproc = "{job.proc}"\nsys = "{job.sys}"\n'
        f"[discovery]\nenabled = false\n[taps]\n{taps}\n{engines}",
        encoding="utf-8",
    )
    return load(file, {}, {})


def main() -> None:
    """Collect until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    collect(Job(**json.loads(sys.argv[1])), stop)


if __name__ == "__main__":
    main()
