"""A query's result as a chart, where it has a time and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.charts import Panel, Trace, figure, on_windows
from dashboard.ranges import Range
from stallscope.units import US_PER_SECOND

MAX_PANELS = 6
MAX_TRACES = 6
_WINDOW_NAMES = ("time", "wall_us")
_NOT_DRAWN = frozenset({"wall_us", "mono_us", "engine", "device", "quantile", "window_us"})


@dataclass(frozen=True, slots=True)
class Drawable:
    """A result that can be drawn.

    Attributes:
        wall_us: Time of each row.
        numbers: Names of columns with numbers.
        labels: One text per row that tells traces of a panel apart.
    """

    wall_us: npt.NDArray[np.int64]
    numbers: tuple[str, ...]
    labels: tuple[str, ...]


def drawable(table: pa.Table) -> Drawable | None:
    """Return what of a result can be drawn; None without a time, numbers or two moments."""
    wall_us = _times(table)
    numbers = tuple(
        field.name
        for field in table.schema
        if _is_number(field.type) and field.name not in _NOT_DRAWN
    )[:MAX_PANELS]
    if wall_us is None or not numbers or len(np.unique(wall_us)) < 2:  # noqa: PLR2004 - no line
        return None
    return Drawable(wall_us, numbers, _labels(table))


def result_figure(table: pa.Table, found: Drawable) -> dict[str, Any]:
    """Return the data of the panels component, one panel per column with numbers."""
    since_us, until_us = int(found.wall_us.min()), int(found.wall_us.max())
    spacing_us = int(np.diff(np.unique(found.wall_us)).min())
    span = Range(since_us, until_us + max(spacing_us, US_PER_SECOND))
    panels = [_panel(table, found, name, span, spacing_us) for name in found.numbers]
    return figure(panels, [], span, "UTC")


def _times(table: pa.Table) -> npt.NDArray[np.int64] | None:
    """Return the time of each row, or None when there is none or some are missing."""
    for name in _WINDOW_NAMES:
        if name in table.column_names and not table.column(name).null_count and table.num_rows:
            column = table.column(name)
            if pa.types.is_timestamp(column.type):
                column = pc.cast(column, pa.timestamp("us"))
            if pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
                return np.asarray(column.cast(pa.int64()).to_numpy())
    return None


def _is_number(kind: pa.DataType) -> bool:
    """Return whether a column holds numbers."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _labels(table: pa.Table) -> tuple[str, ...]:
    """Return what tells the rows of one moment apart: names, engines, quantiles."""
    apart = [
        field.name
        for field in table.schema
        if pa.types.is_string(field.type) or field.name in {"engine", "device", "quantile"}
    ]
    if not apart:
        return ("",) * int(table.num_rows)
    columns = [table.column(name).to_pylist() for name in apart]
    labels = [
        " ".join(str(part) for part in parts if part is not None)
        for parts in zip(*columns, strict=True)
    ]
    return tuple(labels)


def _panel(table: pa.Table, found: Drawable, name: str, span: Range, spacing_us: int) -> Panel:
    """Return the panel of one column; of each window the largest value is drawn."""
    windows = span.windows(spacing_us)
    values = table.column(name).cast(pa.float64()).to_numpy()
    labels = np.asarray(found.labels)
    kinds = list(dict.fromkeys(found.labels))
    traces = [
        Trace(
            label or name,
            on_windows(windows, *_largest(found.wall_us, values, labels == label)),
            style="main" if place == 0 else "rest",
            bold=place == 0,
        )
        for place, label in enumerate(kinds[:MAX_TRACES])
    ]
    left_out = len(kinds) - len(traces)
    return Panel(
        key=name,
        title=name,
        unit="",
        sub=f"{left_out} more not drawn" if left_out > 0 else "",
        height=90,
        windows=windows,
        traces=traces,
        alt=f"{name} over time, see the table above.",
    )


def _largest(
    wall_us: npt.NDArray[np.int64], values: npt.NDArray[np.float64], mine: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return rows in an order in which the largest of a window comes last, and so stays."""
    order = np.argsort(values[mine], kind="stable")
    return wall_us[mine][order], values[mine][order]
