"""One engine's target on a test's clock: pages in, rows out, each checked against the schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from collector.edges.promtext import Parser
from collector.engine_history import Scraped
from collector.engine_target import EngineTarget
from collector.names import StoredNames
from collector.source import Machine, Row
from stallscope.storage.rows import to_batch
from tests.collector.stand_ins import SECOND, ManualClock, MemoryStore

CAPTURES = Path(__file__).resolve().parent.parent / "captures" / "metrics"
URL = "http://127.0.0.1:8000/metrics"
LABELS = 'engine="0",model_name="m"'


def machine(clock: ManualClock, store: MemoryStore) -> Machine:
    """Return a machine on which nothing is real."""
    return Machine(Path("/nowhere"), Path("/nowhere"), "host-a", clock, StoredNames(store, clock))


@dataclass
class Pages:
    """Feeds pages to one target and remembers the rows of the last."""

    clock: ManualClock = field(default_factory=ManualClock)
    store: MemoryStore = field(default_factory=MemoryStore)
    rows: dict[str, list[Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.target = EngineTarget("engine", URL, machine(self.clock, self.store))
        self.parser = Parser()

    @property
    def now_s(self) -> float:
        """Wall clock in seconds, as pages print it."""
        return self.clock.now().wall_us / SECOND

    def feed(self, page: str | bytes, after_s: float = 1.0) -> Row:
        """Read a page some seconds after the one before; return its first row of engine_metrics."""
        self.clock.advance(round(after_s * SECOND))
        body = page.encode() if isinstance(page, str) else page
        scraped = Scraped(self.parser.parse(body, ""), self.clock.now(), 4_000)
        self.rows = self.target.read(scraped)
        for table, rows in self.rows.items():
            to_batch(table, rows)
        return next(iter(self.rows["engine_metrics"]), {})

    def feed_capture(self, name: str, after_s: float = 1.0) -> Row:
        """Read a recorded page."""
        return self.feed((CAPTURES / name).read_bytes(), after_s)

    def refuse(self, after_s: float = 1.0) -> None:
        """Let the target be found absent."""
        self.clock.advance(round(after_s * SECOND))
        self.target.note_absence(self.clock.now())

    def histogram(self, family: str, engine: int | None = None) -> Row:
        """Return the row of one family from the last page."""
        rows = [
            row
            for row in self.rows["engine_histogram"]
            if row["family"] == family and engine in {None, row["engine"]}
        ]
        assert len(rows) == 1, f"{family} has {len(rows)} rows"
        return rows[0]

    def families(self) -> list[str]:
        """Return the families in which the last page showed something new."""
        return [str(row["family"]) for row in self.rows["engine_histogram"]]

    def events(self) -> list[Row]:
        """Return what the last page showed to have changed."""
        return self.rows.get("change_event", [])

    def engine_of(self, number: object) -> Row:
        """Return the facts behind an engine id."""
        return next(row for row in self.store.stored["engine"] if row["engine"] == number)


def flags(row: Row) -> set[str]:
    """Return the flags of a row."""
    return set(str(row["flags"] or "").split(",")) - {""}


def histogram_text(
    name: str, buckets: Mapping[str, float], total: float | None = 0, labels: str = LABELS
) -> str:
    """Return the lines of a histogram, buckets in the given order."""
    lines = [f'{name}_bucket{{{labels},le="{le}"}} {count}' for le, count in buckets.items()]
    lines.append(f"{name}_count{{{labels}}} {buckets.get('+Inf', 0)}")
    if total is not None:
        lines.append(f"{name}_sum{{{labels}}} {total}")
    return "".join(f"{line}\n" for line in lines)
