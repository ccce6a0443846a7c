"""What the exposition tests share: a page over a clock that moves when told, and its samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from stallscope.clock import Instant
from stallscope.exposition.latest import Row
from stallscope.exposition.page import Page, render

SECOND = 1_000_000
BUILD = {"version": "0.1.0", "schema_version": "1", "host": "gpu-17"}


@dataclass
class ManualClock:
    """A clock that moves when told."""

    mono_us: int = 1_000 * SECOND

    def now(self) -> Instant:
        return Instant(1_700_000_000 * SECOND + self.mono_us, self.mono_us)


@dataclass
class Shown:
    """A page with facts behind its ids."""

    facts: dict[tuple[str, int], Row] = field(
        default_factory=lambda: {
            ("engine", 1): {"name": "vllm-8000", "model": "qwen", "rank": "0"},
            ("engine", 2): {"name": "vllm-8000", "model": "qwen", "rank": "1"},
            ("device", 1): {"name": "nvme0n1"},
            ("device", 2): {"name": "nvme1n1"},
            ("device", 3): {"name": "GPU-aaaa", "gpu_index": 0},
            ("device", 4): {"name": "GPU-bbbb", "gpu_index": 1},
            ("device", 5): {"name": "0000:80:01.0"},
        }
    )
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.page = Page(lambda kind, number: self.facts.get((kind, number)), self.clock, BUILD)

    def see(self, table: str, *rows: Row, interval_us: int = SECOND) -> None:
        """Observe rows that were taken now."""
        stamped = [{"mono_us": self.clock.mono_us, **row} for row in rows]
        self.page.observe(table, stamped, interval_us)

    def text(self, accept: str = "") -> str:
        """Return the page."""
        return render(self.page, accept)[1].decode()

    def values(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        """Return the samples of that name by labels, as the official parser reads them."""
        return {
            frozenset(sample.labels.items()): sample.value
            for family in text_string_to_metric_families(self.text())
            for sample in family.samples
            if sample.name == name
        }

    def value(self, name: str, **labels: str) -> float | None:
        """Return one sample, or None when it is absent."""
        return self.values(name).get(frozenset(labels.items()))


def health(source: str, state: str = "working", **columns: object) -> Mapping[str, object]:
    """Return a source_health row without time."""
    return {"source": source, "state": state, "reason": None, **columns}
