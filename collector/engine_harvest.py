"""What all addresses together gave in one round, and the answer that makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.source import NoData, Reading, Row, SourceError, State

_FAILURES = frozenset({State.FAILED, State.HUNG})


@dataclass(frozen=True, slots=True)
class TargetState:
    """What became of one address, for doctor and the health page.

    Attributes:
        name: The address' name.
        url: The address.
        state: As for sources.
        reason: Empty when all went well.
    """

    name: str
    url: str
    state: State
    reason: str

    def __str__(self) -> str:
        return f"{self.name} at {self.url}: {self.reason}"


class Harvest:
    """Gathers rows and reasons of one round."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {}
        self._rejects = 0
        self._states: list[TargetState] = []
        self._has_resting = False

    @property
    def states(self) -> tuple[TargetState, ...]:
        """What became of each address so far."""
        return tuple(self._states)

    def add(
        self, name: str, url: str, rows: Mapping[str, Sequence[Row]], rejects: int, losses: str
    ) -> None:
        """Add the rows of one address.

        Args:
            name: The address' name.
            url: The address.
            rows: Rows per table.
            rejects: Lines of its page that were refused.
            losses: What of its page could not be read; empty when all of it was.
        """
        for table, more in rows.items():
            self._rows.setdefault(table, []).extend(more)
        self._rejects += rejects
        state = State.PARTIAL if losses else State.WORKING
        self._states.append(TargetState(name, url, state, losses))

    def miss(self, name: str, url: str, state: State, reason: str) -> None:
        """Note that one address gave nothing."""
        self._states.append(TargetState(name, url, state, reason))

    def rest(self, state: TargetState) -> None:
        """Note that an address was left alone this time; what became of it before holds."""
        self._states.append(state)
        self._has_resting = True

    def conclude(self, interval_us: int | None = None) -> Reading | NoData:
        """Return the rows with everything that is missing from them, or why there are none.

        Args:
            interval_us: Pace of the rows where it is not the usual one.

        Raises:
            SourceError: There are none because something broke.
        """
        reason = "; ".join(str(state) for state in self._states if state.reason)
        if self._rows or self._has_resting:
            return Reading(self._rows, self._rejects, reason, interval_us=interval_us)
        states = [state.state for state in self._states]
        if any(state in _FAILURES for state in states):
            raise SourceError(reason)
        # of several reasons the rarer says more: gone or restricted rather than not found
        state = next((one for one in states if one is not State.NOT_FOUND), State.NOT_FOUND)
        return NoData(state, reason)
