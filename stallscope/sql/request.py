"""What the two processes of a query tell each other: the request, the limits, the report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

REPORT = "report.json"
"""File in the scratch folder in which the query's process says how it ended."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one query may take.

    Attributes:
        memory_mb: Memory of the query.
        timeout_s: Seconds until it is stopped, start of its process included.
        max_rows: Rows after which the result ends, or None for all.
        max_bytes: Bytes of Arrow data after which the result ends, or None for all.
        spill_mb: Disk that it may fill with what does not fit in memory.
    """

    memory_mb: int = 512
    timeout_s: float = 60.0
    max_rows: int | None = 10_000
    max_bytes: int | None = 64_000_000
    spill_mb: int = 1_024


@dataclass(frozen=True, slots=True)
class Request:
    """One query, as the process that runs it gets it.

    Attributes:
        lake: Folder of the lake, absolute.
        scratch: Folder that is the query's own: spilled data and the report.
        sql: What a person wrote.
        library: Statements that define views and macros.
        limits: How much it may take.
    """

    lake: Path
    scratch: Path
    sql: str
    library: tuple[str, ...]
    limits: Limits

    def encode(self) -> bytes:
        """Return the request as bytes."""
        fields = asdict(self) | {"lake": str(self.lake), "scratch": str(self.scratch)}
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, data: bytes) -> Request:
        """Return the request that `encode` made into bytes."""
        fields = json.loads(data)
        return cls(
            lake=Path(fields["lake"]),
            scratch=Path(fields["scratch"]),
            sql=fields["sql"],
            library=tuple(fields["library"]),
            limits=Limits(**fields["limits"]),
        )


@dataclass(frozen=True, slots=True)
class Report:
    """How a query ended.

    Attributes:
        kind: ``done``, ``refused`` (not allowed), ``failed`` (wrong or too big) or ``no_lake``.
        message: What is wrong; empty when done.
        hint: What to do about it.
        truncated: Whether rows were left out because of the limits.
        sandbox: What the operating system enforces, see `stallscope.sql.sandbox`.
    """

    kind: str
    message: str = ""
    hint: str = ""
    truncated: bool = False
    sandbox: Mapping[str, str] | None = None

    def write(self, scratch: Path) -> None:
        """Leave the report in the scratch folder."""
        (scratch / REPORT).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, scratch: Path) -> Report | None:
        """Return the report, or None when the process ended without one."""
        try:
            return cls(**json.loads((scratch / REPORT).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
