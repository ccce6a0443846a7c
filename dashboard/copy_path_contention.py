"""Inter-token latency above its median, second by second, beside what each link did meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt

from analytics.copy_contention import Relation, Values, on_grid, relate
from dashboard.copy_path_devices import Devices
from dashboard.copy_path_words import WAYS
from dashboard.data import Columns, columns
from dashboard.engines import Engine
from dashboard.ranges import Range
from dashboard.sampling import spacing_us
from stallscope.units import US_PER_MS, US_PER_SECOND

TABLES = ("itl_1s", "engine_histogram", "engine_metrics", "gpu_link", "copy_event")
MODULES = ("itl_quantile", "copy_path", "intervals", "itl_excess", "copy_contention")
LONGEST_US = 1_800 * US_PER_SECOND
"""Spikes and bursts last seconds, so seconds are compared; of a longer range its last half hour."""
_LONGEST_STEP_US = 10 * US_PER_SECOND


@dataclass(frozen=True, slots=True)
class Signal:
    """Something that ITL is held against.

    Attributes:
        column: Its column in macro copy_contention.
        name: Its name in a sentence.
        axis: Its name and unit on an axis.
        scale: From the column's unit to that of the axis.
        step: The difference for which the slope is quoted, in the column's unit, and its words.
        grain: Smallest difference of the column that means a thing.
    """

    column: str
    name: str
    axis: str
    scale: float
    step: tuple[float, str]
    grain: float


SATURATION = Signal(
    column="saturation_ratio",
    name="link saturation",
    axis="saturation, % of achievable",
    scale=100,
    step=(0.1, "10 points of saturation"),
    grain=0.01,
)
BACKLOG = Signal(
    column="backlog_us",
    name="copy backlog",
    axis="copy backlog, ms",
    scale=1 / US_PER_MS,
    step=(10 * US_PER_MS, "10 ms of backlog"),
    grain=US_PER_MS,
)
OWN_COPIES = Signal(
    column="copy_ratio",
    name="KV copies of the engine itself",
    axis="its own KV copies, ms per second",
    scale=1_000,
    step=(0.1, "100 ms of copies per second"),
    grain=0.01,
)


@dataclass(frozen=True, slots=True)
class Facet:
    """One signal of one link against ITL.

    Attributes:
        signal: Which.
        x: The signal per window, in the unit of the axis; NaN where unknown.
        relation: What the two have to do with each other, in the units of the columns.
    """

    signal: Signal
    x: Values
    relation: Relation


@dataclass(frozen=True, slots=True)
class Pair:
    """One direction of one GPU's link against the engine.

    Attributes:
        name: ``GPU 0 H2D``.
        direction: rx or tx.
        device: GPU.
        wall_us: Begin of each window.
        excess_us: ITL above its median, per window; NaN where unknown.
        facets: Signals with known windows; of pairs that are not the chosen one, saturation only.
        coverage: Share of the time that the method saw, None where unknown.
    """

    name: str
    direction: str
    device: int
    wall_us: npt.NDArray[np.int64]
    excess_us: Values
    facets: tuple[Facet, ...]
    coverage: float | None


@dataclass(frozen=True, slots=True)
class Contention:
    """An engine's ITL against all links.

    Attributes:
        engine: Which engine.
        since_us, until_us: The range that was compared.
        step_us: Length of a window.
        level: gap, step or scrape; empty without any ITL.
        figure: p99 or mean; empty without any ITL.
        median_us: What excess is counted from, None without any ITL.
        itl_wall_us, itl_us: The figure per window.
        chosen: The pair to show: the asked one, else that of the hottest link. Chosen by the link
            and never by the fit, so that a fit is not found by looking for one.
        others: The other pairs, the hottest link first.
    """

    engine: Engine
    since_us: int
    until_us: int
    step_us: int
    level: str
    figure: str
    median_us: float | None
    itl_wall_us: npt.NDArray[np.int64]
    itl_us: Values
    chosen: Pair | None
    others: tuple[Pair, ...]


def compared_range(span: Range) -> Range:
    """Return what of a range is compared: its last half hour at most."""
    return Range(max(span.since_us, span.until_us - LONGEST_US), span.until_us, span.zoomed)


def read_contention(
    connection: duckdb.DuckDBPyConnection, engine: Engine, devices: Devices, span: Range, link: str
) -> Contention:
    """Return how an engine's ITL and every link went together.

    Args:
        connection: Sees the tables and modules above.
        engine: The engine.
        devices: GPUs by name.
        span: A range of at most `LONGEST_US`.
        link: Name of the pair to show, or anything else for the hottest.
    """
    step_us = _step_us(connection, engine, span)
    asked = {
        "since": span.since_us - span.since_us % step_us,
        "until": span.until_us - span.until_us % step_us,
        "step": step_us,
        "engine": engine.id,
    }
    macro = "($since, $until, step_us := $step, only_engine := $engine) ORDER BY wall_us"
    names = "wall_us, level, figure, itl_us, excess_us"
    itl = columns(connection, f"SELECT {names} FROM itl_excess{macro}", asked)
    names = (
        "wall_us, device, direction, excess_us, saturation_ratio, coverage_ratio, backlog_us, "
        "copy_ratio"
    )
    found = columns(connection, f"SELECT {names} FROM copy_contention{macro}", asked)
    chosen, others = _pairs(found, devices, link, asked["since"], step_us)
    some = len(itl["wall_us"]) > 0
    return Contention(
        engine=engine,
        since_us=asked["since"],
        until_us=asked["until"],
        step_us=step_us,
        level=str(itl["level"][0]) if some else "",
        figure=str(itl["figure"][0]) if some else "",
        median_us=float(itl["itl_us"][0] - itl["excess_us"][0]) if some else None,
        itl_wall_us=itl["wall_us"],
        itl_us=itl["itl_us"],
        chosen=chosen,
        others=others,
    )


def _step_us(connection: duckdb.DuckDBPyConnection, engine: Engine, span: Range) -> int:
    """Return the shortest window that holds a reading of the link and one of the engine."""
    spacing = [spacing_us(connection, "gpu_link", span)]
    exact = connection.execute(
        "SELECT 1 FROM itl_1s WHERE engine = ? AND level <> 'scrape' AND wall_us >= ? "
        "AND wall_us < ? LIMIT 1",
        [engine.id, span.since_us, span.until_us],
    ).fetchone()
    if exact is None:
        mine = f"engine = {engine.id:d}"
        spacing.append(spacing_us(connection, "engine_metrics", span, mine))
    whole_s = -(-max(spacing) // US_PER_SECOND)
    return min(_LONGEST_STEP_US, max(1, whole_s) * US_PER_SECOND)


def _pairs(
    found: Columns, devices: Devices, link: str, since_us: int, step_us: int
) -> tuple[Pair | None, tuple[Pair, ...]]:
    """Return the chosen pair and the others, the hottest link first."""
    split = {
        f"{devices.gpu(int(device)).name} {WAYS[way]}": _only(found, device, way)
        for device in np.unique(found["device"])
        for way in WAYS
    }
    order = sorted(split, key=lambda name: (-_peak(split[name]), name))
    if not order:
        return None, ()
    chosen = link if link in split else order[0]
    pairs = {
        name: _pair(name, split[name], since_us, step_us, everything=name == chosen)
        for name in order
    }
    return pairs.pop(chosen), tuple(pairs.values())


def _only(found: Columns, device: int, way: str) -> Columns:
    """Return the rows of one direction of one GPU."""
    mine = (found["device"] == device) & (found["direction"] == way)
    return {name: values[mine] for name, values in found.items()}


def _peak(rows: Columns) -> float:
    """Return the largest known saturation, -1 where none is."""
    values = rows["saturation_ratio"].astype(np.float64)
    return float(np.nanmax(values)) if not np.isnan(values).all() else -1.0


def _pair(name: str, rows: Columns, since_us: int, step_us: int, *, everything: bool) -> Pair:
    """Return one direction of one GPU."""
    excess = _grid(rows, "excess_us", since_us, step_us)
    signals = (SATURATION, BACKLOG, OWN_COPIES) if everything else (SATURATION,)
    facets = (_facet(rows, signal, excess, since_us, step_us) for signal in signals)
    coverage = rows["coverage_ratio"].astype(np.float64)
    return Pair(
        name=name,
        direction=str(rows["direction"][0]),
        device=int(rows["device"][0]),
        wall_us=since_us + step_us * np.arange(len(excess)),
        excess_us=excess,
        facets=tuple(facet for facet in facets if facet.relation.points),
        coverage=None if np.isnan(coverage).all() else float(np.nanmean(coverage)),
    )


def _grid(rows: Columns, column: str, since_us: int, step_us: int) -> Values:
    """Return a column on windows without holes."""
    return on_grid(rows["wall_us"], rows[column].astype(np.float64), since_us, step_us)


def _facet(rows: Columns, signal: Signal, excess: Values, since_us: int, step_us: int) -> Facet:
    """Return one signal of one link against ITL."""
    values = _grid(rows, signal.column, since_us, step_us)
    return Facet(signal, values * signal.scale, relate(values, excess, step_us, signal.grain))
