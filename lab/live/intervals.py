"""How far apart two ways of running are, and how surely: paired rounds and a bootstrap."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

_RESAMPLES = 4_000
_TAIL = 0.025


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % bootstrap interval.

    Attributes:
        low: Lower end.
        middle: The mean.
        high: Upper end.
    """

    low: float
    middle: float
    high: float

    @property
    def reach(self) -> float:
        """Distance of the end that is farther from zero."""
        return max(abs(self.low), abs(self.high))

    def as_percent(self) -> str:
        """Return the interval in percent."""
        return f"{self.middle * 100:+.2f} % [{self.low * 100:+.2f}, {self.high * 100:+.2f}]"


def bootstrap(values: Sequence[float], seed: int = 1) -> Interval:
    """Return the mean of values that are independent of each other, with its interval.

    Args:
        values: One per round, at least one.
        seed: Same seed, same interval.
    """
    dice = random.Random(seed)
    means = sorted(fmean(dice.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    low, high = means[round(_TAIL * _RESAMPLES)], means[-round(_TAIL * _RESAMPLES) - 1]
    return Interval(low, fmean(values), high)


def changes(changed: Sequence[float], usual: Sequence[float]) -> list[float]:
    """Return by how much each value is above its partner, as a share of it."""
    return [new / old - 1 for new, old in zip(changed, usual, strict=True)]


def is_separable(effect: Interval, control: Interval) -> bool:
    """Return whether an effect is more than nothing, and more than a control in which nothing was.

    Args:
        effect: With against without.
        control: Without against without.
    """
    is_some = effect.low > 0 or effect.high < 0
    return is_some and abs(effect.middle) > control.reach
