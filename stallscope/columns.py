"""What a table and a column are: the vocabulary in which `stallscope.schema` speaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa


class Kind(StrEnum):
    """Storage type of a column; each has one Arrow and one SQL spelling."""

    BOOL = "bool"
    U8 = "uint8"
    U16 = "uint16"
    U32 = "uint32"
    I16 = "int16"
    I64 = "int64"
    F32 = "float32"
    F64 = "float64"
    TEXT = "text"
    I64_LIST = "int64 list"
    U32_LIST = "uint32 list"


ARROW: dict[Kind, pa.DataType] = {
    Kind.BOOL: pa.bool_(),
    Kind.U8: pa.uint8(),
    Kind.U16: pa.uint16(),
    Kind.U32: pa.uint32(),
    Kind.I16: pa.int16(),
    Kind.I64: pa.int64(),
    Kind.F32: pa.float32(),
    Kind.F64: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.I64_LIST: pa.list_(pa.int64()),
    Kind.U32_LIST: pa.list_(pa.uint32()),
}

SQL: dict[Kind, str] = {
    Kind.BOOL: "BOOLEAN",
    Kind.U8: "UTINYINT",
    Kind.U16: "USMALLINT",
    Kind.U32: "UINTEGER",
    Kind.I16: "SMALLINT",
    Kind.I64: "BIGINT",
    Kind.F32: "FLOAT",
    Kind.F64: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.I64_LIST: "BIGINT[]",
    Kind.U32_LIST: "UINTEGER[]",
}


class Cadence(StrEnum):
    """How soon rows of a table become a sealed segment."""

    LIVE = "live"
    """Every second: what the Now page and the watcher read."""
    SLOW = "slow"
    """Every ten seconds."""


class Retention(StrEnum):
    """How long rows of a table are kept; the limits are settings."""

    RAW = "raw"
    ROLLUP = "rollup"
    KEEP = "keep"


class Role(StrEnum):
    """What a table is for; docs are grouped by it."""

    SIGNAL = "signal"
    FACT = "fact"
    RESULT = "result"
    ROLLUP = "rollup"


@dataclass(frozen=True, slots=True)
class Metric:
    """How a column appears at /metrics.

    Attributes:
        name: Full exposition name with base unit, for example ``stallscope_nvme_queue_mean``.
        kind: ``gauge`` or ``counter``.
        scale: Multiplies the stored value into the base unit.
        labels: Fixed labels of this column, for example ``(("op", "read"),)``.
        otel: The OpenTelemetry name, or an empty string where none exists.
    """

    name: str
    kind: str = "gauge"
    scale: float = 1.0
    labels: tuple[tuple[str, str], ...] = ()
    otel: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        name: Carries unit and clock: ``_us``, ``_bytes``, ``_ratio``, ``wall_``, ``mono_``.
        kind: Storage type.
        unit: ``us``, ``bytes``, ``ratio``, ``count``, ``tokens`` or ``-``.
        meaning: One sentence for docs/schema.md.
        nullable: Whether NULL may stand there; a NULL always has its reason in the same row
            or in source_health.
        since: Schema version that first has the column.
        was: Earlier names, newest first, as (last version that used it, name).
        metric: Exposition, if any.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    nullable: bool = True
    since: int = 1
    was: tuple[tuple[int, str], ...] = ()
    metric: Metric | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the lake.

    Attributes:
        name: Table and view name.
        role: What it is for.
        meaning: One or two sentences for docs/schema.md.
        columns: In storage order.
        key: Columns that name the entity (device, engine); rows of a sealed minute are sorted by
            ``key`` then time, which is what makes gauges small.
        time: The time column that segments are pruned by, or an empty string for facts without.
        cadence: How soon rows are sealed.
        retention: How long rows are kept.
        gauges: Columns that get min, mean and max per minute in ``<name>_1m``.
        sums: Columns that are added up per minute in ``<name>_1m``.
        deltas: Small integers stored as differences, since they move in small steps from row to
            row in storage order; other small integers are stored as dictionaries.
        coarse: Its float gauges come from few whole numbers (I/Os and milliseconds of a window), so
            they are stored as dictionaries instead of split bytes.
        time_ordered: Keep rows in time order instead of (key, time): one row per event.
    """

    name: str
    role: Role
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    time: str = "wall_us"
    cadence: Cadence = Cadence.SLOW
    retention: Retention = Retention.RAW
    gauges: tuple[str, ...] = field(default=())
    sums: tuple[str, ...] = field(default=())
    deltas: tuple[str, ...] = field(default=())
    coarse: bool = False
    time_ordered: bool = False

    def column(self, name: str) -> Column:
        """Return the column of that name.

        Raises:
            KeyError: The table has no such column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        msg = f"table {self.name} has no column {name}"
        raise KeyError(msg)


WALL = Column(
    "wall_us", Kind.I64, "us", "When the row was taken: UTC since 1970, may step.", nullable=False
)
MONO = Column(
    "mono_us",
    Kind.I64,
    "us",
    "The same moment since boot, never steps; compares within a boot.",
    nullable=False,
)
WINDOW = Column(
    "window_us",
    Kind.U32,
    "us",
    "Length of the interval that deltas and means cover; NULL on the first row of an entity.",
)
ENGINE = Column("engine", Kind.U16, "-", "Engine id, see table engine.", nullable=False)
DEVICE = Column("device", Kind.U16, "-", "Device id, see table device.", nullable=False)


def gauge(
    name: str,
    kind: Kind,
    unit: str,
    meaning: str,
    metric: Metric | None = None,
    *,
    since: int = 1,
) -> Column:
    """Return a nullable column that holds a reading, not an identity."""
    return Column(name, kind, unit, meaning, metric=metric, since=since)


def fixed(name: str, kind: Kind, unit: str, meaning: str) -> Column:
    """Return a column that is never NULL."""
    return Column(name, kind, unit, meaning, nullable=False)
