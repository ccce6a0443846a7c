"""What each link can achieve: calibrated where somebody measured it, else learned, else by default.

A learned ceiling is the rate that a link held for three windows in a row although it was thought
to be impossible; it only grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from collector.link_capacity import LinkState
from collector.source import Row
from stallscope.units import US_PER_SECOND

_WINDOWS = 3
_LEAST_COVERAGE = 0.5  # a window of which less was measured may be a burst
_LEAST_GROWTH = 1.01
_REFRESH_US = 60 * US_PER_SECOND
_DIRECTIONS = frozenset({"rx", "tx"})

Rows: TypeAlias = Callable[[], Iterable[Row]]
"""Returns the rows of table link_ceiling, oldest first."""


class Spot(NamedTuple):
    """What a ceiling holds for.

    Attributes:
        device: Device id of the GPU.
        direction: ``rx`` or ``tx``.
        state: Generation and width of its link.
    """

    device: int
    direction: str
    state: LinkState


class Ceiling(NamedTuple):
    """What a link can achieve in one direction.

    Attributes:
        kind: ``calibrated``, ``learned`` or ``default``.
        bytes_per_second: While the other direction is quiet.
        together: While both directions are busy; None when that was not measured.
    """

    kind: str
    bytes_per_second: float
    together: float | None = None


class LinkCeilings:
    """All ceilings that are known.

    Args:
        rows: Asked at the first use and every minute: somebody may calibrate meanwhile.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._read_us: int | None = None
        self._calibrated: dict[Spot, Ceiling] = {}
        self._learned: dict[Spot, Ceiling] = {}
        self._recent: dict[tuple[int, str], tuple[LinkState, tuple[float, ...]]] = {}

    def refresh(self, now_us: int) -> None:
        """Read the rows again when it is time to."""
        if self._read_us is not None and now_us - self._read_us < _REFRESH_US:
            return
        self._read_us = now_us
        for row in self._rows():
            self._keep(row)

    def find(self, spot: Spot, usual: float) -> Ceiling:
        """Return the ceiling in force.

        Args:
            spot: What is asked for.
            usual: What such a link usually achieves.
        """
        calibrated = self._calibrated.get(spot)
        if calibrated is not None:
            return calibrated
        learned = self._learned.get(spot)
        if learned is not None and learned.bytes_per_second > usual:
            return learned
        return Ceiling("default", usual)

    def learn(self, spot: Spot, rate: float, coverage: float, usual: float) -> float | None:
        """Take a measured rate in, and return the new ceiling when it shows that there is one.

        Args:
            spot: Where it was measured.
            rate: Mean of a window, bytes/s.
            coverage: Share of the window that was measured.
            usual: What such a link usually achieves.
        """
        held = self._held(spot, rate, coverage)
        current = self.find(spot, usual)
        if held is None or current.kind == "calibrated":
            return None
        if held <= current.bytes_per_second * _LEAST_GROWTH:
            return None
        self._learned[spot] = Ceiling("learned", held)
        return held

    def interrupt(self, device: int) -> None:
        """Note a window of a GPU that was not measured: those around it are not in a row."""
        for direction in _DIRECTIONS:
            self._recent.pop((device, direction), None)

    def _held(self, spot: Spot, rate: float, coverage: float) -> float | None:
        """Return the lowest of the last three windows in the same state, all well measured."""
        key = (spot.device, spot.direction)
        state, rates = self._recent.get(key, (spot.state, ()))
        if coverage < _LEAST_COVERAGE or state != spot.state:
            rates = ()
        if coverage >= _LEAST_COVERAGE:
            rates = (*rates, rate)[-_WINDOWS:]
        self._recent[key] = (spot.state, rates)
        return min(rates) if len(rates) == _WINDOWS else None

    def _keep(self, row: Row) -> None:
        """Take one row in, the later one of a place winning; one that says nothing is left out."""
        spot, rate = _spot_of(row), row.get("bytes_per_second")
        if spot is None or not isinstance(rate, int | float) or rate <= 0:
            return
        if row.get("kind") == "calibrated":
            together = row.get("together_bytes_per_second")
            known = together if isinstance(together, int | float) and together > 0 else None
            self._calibrated[spot] = Ceiling("calibrated", rate, known)
        elif row.get("kind") == "learned":
            before = self._learned.get(spot)
            if before is None or rate > before.bytes_per_second:
                self._learned[spot] = Ceiling("learned", rate)


def _spot_of(row: Mapping[str, object]) -> Spot | None:
    device, direction = row.get("device"), row.get("direction")
    generation, width = row.get("link_generation"), row.get("link_width")
    if not isinstance(device, int) or not isinstance(generation, int) or not isinstance(width, int):
        return None
    if direction not in _DIRECTIONS:
        return None
    return Spot(device, str(direction), LinkState(generation, width))
