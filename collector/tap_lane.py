"""What one source gets of the taps: datagrams, read, and held until their engine is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from collector.source import NoData, Reading, Rows, SourceError, State
from collector.source_loop import describe_crash
from collector.tap_engines import Index
from collector.tap_hub import Taps
from collector.tap_inbox import Arrival, Lane
from collector.tap_losses import TapLosses
from collector.tap_sessions import Loss, TapSession
from collector.tap_wire import Kind, Message, WireError, parse_message
from stallscope.clock import Instant
from stallscope.units import US_PER_MS, US_PER_SECOND

_COUNTED = {Lane.STEPS: {Kind.STEPS, Kind.REQUESTS}, Lane.GAPS: {Kind.GAPS}}
_MOST_HELD_BYTES = 16 << 20
_LONGEST_HELD_US = 30 * US_PER_SECOND
_REQUEST_WEIGHT = 8
_MOST_AT_ONCE = 1 << 20  # 45,000 rows of gaps a poll
_MOST_SENDERS = 1_000
_QUIET_REST_US = 500 * US_PER_MS

Indices = Callable[[TapSession, Message], Iterable[Index]]
"""Returns the indices of the engines that a message speaks of."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A datagram whose engines are not known yet, and what it takes in memory."""

    session: TapSession
    message: Message
    at: Instant
    size: int


@dataclass(frozen=True, slots=True)
class Letter:
    """A datagram that is ready to become rows.

    Attributes:
        session: Whose.
        message: What it says.
        engines: Id of each engine it speaks of.
    """

    session: TapSession
    message: Message
    engines: Mapping[Index, int]

    def engine(self, index: Index) -> int:
        """Return the id of an engine; of one that was not told of then, the id of another."""
        return self.engines.get(index, next(iter(self.engines.values())))


class TapLane:
    """Reads one lane; one thread uses it.

    Args:
        lane: Which.
        taps: What both lanes share.
        indices: Says which engines a message speaks of.
    """

    def __init__(self, lane: Lane, taps: Taps, indices: Indices) -> None:
        self._lane = lane
        self._taps = taps
        self._indices = indices
        self._held: list[_Held] = []
        self._rejects = self._dropped = 0
        self._lost: Counter[tuple[int, Kind | None]] = Counter()
        self.losses = TapLosses()
        taps.receiver.join()

    def why_deaf(self) -> NoData | None:
        """Return why nothing can be received; None when all is well."""
        return self._taps.receiver.listen()

    def collect(self) -> tuple[list[Letter], Instant]:
        """Return what came since, in order, and the present.

        The present is one moment on both clocks, from which the wall times of all rows are counted:
        a step of the wall clock tears no batch apart.
        """
        taken = self._taps.inbox.take(self._lane)
        at = self._taps.now()
        self._lost.update(taken.lost)
        if len(self._lost) > _MOST_SENDERS:
            self._lost.clear()
        self._count_lost("rows thrown away here, the inbox was full", taken.lost_rows, at)
        for arrival in taken.arrivals:
            self._open(arrival)
        return self._settle(at), at

    def refuse(self, count: int, what: str, at: Instant) -> None:
        """Note values or rows that were refused while datagrams became rows."""
        self._rejects += count
        self.losses.note("values refused", count, at.mono_us, what)

    def lose(self, letters: Sequence[Letter], at: Instant) -> None:
        """Note that datagrams did not become rows."""
        lost = sum(letter.message.header.rows for letter in letters)
        self._count_lost("rows lost in a poll that failed", lost, at)

    def conclude(self, rows: Mapping[str, Rows], at: Instant) -> Reading | NoData:
        """Return the reading that rows make, with all that is missing from them.

        Returns:
            NoData while nothing has come from any tap.
        """
        told = (self.losses.describe(at.mono_us), self._taps.receiver.note)
        reason = "; ".join(filter(None, told))
        if not reason and not self._taps.sessions.are_known:
            where = self._taps.receiver.where
            silence = f"no tap has sent anything to {where} yet"
            return NoData(State.NOT_FOUND, silence, rest_us=_QUIET_REST_US)
        reading = Reading(rows, self._rejects, reason, self._dropped)
        self._rejects = self._dropped = 0
        return reading

    def close(self) -> None:
        """Leave the taps to others."""
        self._taps.receiver.leave()

    def _open(self, arrival: Arrival) -> None:
        """Read a datagram; one that is broken is counted, its neighbours stay."""
        try:
            message = parse_message(arrival.data)
        except WireError as error:
            self._refuse_datagram(str(error), arrival)
            return
        except Exception as error:  # noqa: BLE001 - what a stranger sends must not cost the others' rows
            self._refuse_datagram(describe_crash(error), arrival)
            return
        counts = message.kind in _COUNTED[self._lane]
        session, loss = self._taps.sessions.follow(
            message.header, message.kind, arrival.pid, arrival.at, counts=counts
        )
        if counts:
            self._note_loss(loss, (arrival.pid, message.kind), arrival.at)
            self.refuse(message.rejects, "of its lists", arrival.at)
        # A request becomes an object of many fields, a column stays what it was.
        weight = _REQUEST_WEIGHT if message.kind is Kind.REQUESTS else 1
        self._held.append(_Held(session, message, arrival.at, weight * arrival.size))

    def _note_loss(self, loss: Loss, sender: tuple[int, Kind | None], at: Instant) -> None:
        """Count what was lost on the way; what was lost here is counted already."""
        here = min(loss.datagrams, self._lost[sender])
        self._lost[sender] -= here
        self._count_lost("datagrams never came", loss.datagrams - here, at)
        self._count_lost("records dropped by taps", loss.records, at)

    def _refuse_datagram(self, reason: str, arrival: Arrival) -> None:
        self._rejects += 1
        detail = f"the last from process {arrival.pid}: {reason}"
        self.losses.note("datagrams refused", 1, arrival.at.mono_us, detail)

    def _count_lost(self, kind: str, count: int, at: Instant) -> None:
        self._dropped += count
        self.losses.note(kind, count, at.mono_us)

    def _settle(self, at: Instant) -> list[Letter]:
        """Return the messages whose engines are known by now; the others wait.

        Of those that have waited long some are left for the next poll: rows of five seconds at once
        would take memory that is never given back.
        """
        letters = []
        waiting, self._held = self._held, []
        room, share = _MOST_HELD_BYTES, _MOST_AT_ONCE
        for held in waiting:
            engines = self._find_engines(held, at) if share > 0 else None
            if engines is not None:
                share -= held.size
                letters.append(Letter(held.session, held.message, engines))
            elif room >= held.size and at.mono_us - held.at.mono_us < _LONGEST_HELD_US:
                room -= held.size
                self._held.append(held)
            else:
                rows = held.message.header.rows
                self._count_lost("rows dropped, their engine had no id", rows, at)
        return letters

    def _find_engines(self, held: _Held, at: Instant) -> Mapping[Index, int] | None:
        """Return the engines of a datagram; None while one has no id yet."""
        indices = frozenset(self._indices(held.session, held.message))
        try:
            return self._taps.engines.find(held.session, indices, at.mono_us)
        except SourceError as error:
            self.losses.note("datagrams wait for the id of their engine", 1, at.mono_us, str(error))
            return None
