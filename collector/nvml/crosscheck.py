"""Telling an idle link from a counter that does not count. Pure.

Profiling counters were seen at a constant zero while others moved (dcgm-exporter#721), at zero
after an Xid 31 (DCGM#303) and frozen at their last value (dcgm-exporter#164). A way of measuring
that stands still is compared with a second opinion: more and more rarely as long as that stands
still, too, because it blocks for 40 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

_STILL_SAMPLES = 3
_CONTRADICTIONS = 2
_RAREST_CHECK = 64  # samples
_MOVES_BYTES_PER_SECOND = 1 << 20  # drivers up to 536 round the second opinion to whole MB
_DIFFERS_RATIO = 0.5


class Verdict(Enum):
    """What became of the suspicion."""

    SOUND = auto()
    BROKEN = auto()
    STALE = auto()


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per second at the same time; None for what was not measured.

    Attributes:
        rx: To the GPU.
        tx: From the GPU.
    """

    rx: float | None
    tx: float | None


class StillCount:
    """Counts how long one direction shows the same value."""

    def __init__(self) -> None:
        self.value: float | None = None
        self.samples = 0

    def note(self, value: float | None) -> None:
        """Take in one sample; one without a value says nothing."""
        if value is None:
            return
        self.samples = self.samples + 1 if value == self.value else 1
        self.value = value

    @property
    def stands_still(self) -> bool:
        """Whether it showed the same value for long enough to be asked about."""
        return self.samples >= _STILL_SAMPLES

    def contradicts(self, opinion: float | None) -> bool:
        """Return whether the second opinion shows something else than the value it stands at."""
        if opinion is None or self.value is None or not self.stands_still:
            return False
        difference = abs(opinion - self.value)
        largest = max(opinion, self.value)
        return difference >= _MOVES_BYTES_PER_SECOND and difference > largest * _DIFFERS_RATIO


class Suspicion:
    """Watches one way of measuring one link."""

    def __init__(self) -> None:
        self._rx, self._tx = StillCount(), StillCount()
        self._contradictions = 0
        self._until_check = 0
        self._pause = 1

    def wants_opinion(self) -> bool:
        """Return whether the next sample is to come with a second opinion."""
        return self._stands_still() and self._until_check <= 0

    def note(self, rates: Rates, opinion: Rates | None, utilisation: float | None) -> Verdict:
        """Take in one sample.

        Args:
            rates: What the way shows for a window.
            opinion: What another way shows within that window; None when it was not asked.
            utilisation: Share of time with a kernel running, 0 to 1; None when not known.
        """
        self._rx.note(rates.rx)
        self._tx.note(rates.tx)
        if not self._stands_still():
            self._contradictions, self._until_check, self._pause = 0, 0, 1
            return Verdict.SOUND
        self._until_check -= 1
        if opinion is None:
            return Verdict.SOUND
        return self._weigh(opinion, utilisation)

    def _weigh(self, opinion: Rates, utilisation: float | None) -> Verdict:
        if self._rx.contradicts(opinion.rx) or self._tx.contradicts(opinion.tx):
            self._contradictions += 1
            self._until_check = 0
            broken = self._contradictions >= _CONTRADICTIONS
            return Verdict.BROKEN if broken else Verdict.SOUND
        self._contradictions = 0
        if opinion.rx is None and opinion.tx is None:  # nothing else can tell
            return Verdict.STALE if utilisation and self._is_zero() else Verdict.SOUND
        self._pause = min(self._pause * 2, _RAREST_CHECK)
        self._until_check = self._pause - 1
        return Verdict.SOUND

    def _stands_still(self) -> bool:
        return self._rx.stands_still or self._tx.stands_still

    def _is_zero(self) -> bool:
        return (
            self._rx.stands_still
            and self._tx.stands_still
            and not (self._rx.value or self._tx.value)
        )
