"""What a feeding process is asked to do, as it travels on its command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.crash.clock import LabClock
from stallscope.storage.writer import WriterOptions


@dataclass(frozen=True, slots=True)
class Plan:
    """One feeding process.

    Attributes:
        lake: Folder of the lake.
        acks: File of acknowledgements, outside the lake.
        run: Number of the run: rows of different runs never meet.
        seconds: How long to feed.
        tokens_per_second: Token rows per real second.
        pace: Lab seconds per real second.
        origin_us: Origin of the paced clock.
        steps: Steps of the wall clock.
        grace_s: Grace period of merged files, in lab seconds.
        housekeeping_s: Real seconds between rounds of merging; 0 for none.
        journal_sync: fdatasync each journal write.
        publish: Publish the catalog every 2 s.
    """

    lake: Path
    acks: Path
    run: int
    seconds: float
    tokens_per_second: int = 20_000
    pace: float = 1.0
    origin_us: int = 0
    steps: Sequence[tuple[float, int]] = field(default=())
    grace_s: float = 900.0
    housekeeping_s: float = 1.0
    journal_sync: bool = False
    publish: bool = True

    def clock(self) -> LabClock:
        """Return the clock of the process."""
        return LabClock(self.pace, self.origin_us, self.steps)

    def options(self) -> WriterOptions:
        """Return the writer's options."""
        return WriterOptions(
            journal_sync=self.journal_sync,
            housekeeping_s=self.housekeeping_s,
            grace_s=self.grace_s,
            host="lab",
        )

    def to_text(self) -> str:
        """Return the plan as one argument."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_text(cls, text: str) -> Plan:
        """Return the plan that `to_text` wrote."""
        raw = json.loads(text)
        raw["lake"], raw["acks"] = Path(raw["lake"]), Path(raw["acks"])
        raw["steps"] = [(since, offset) for since, offset in raw["steps"]]
        return cls(**raw)
