"""Whether inter-token latency rises with the copy path: how steeply, how late, by what chance.

Evidence, not attribution: what loads the link may load the GPU as well, and both rise together.

- The slope is the median of the slopes of pairs of windows (Theil and Sen), each weighed by how
  far apart its signals are. Pairs of two idle windows say nothing but noise, and would outvote the
  few busy ones if all counted the same.
- The lag is that of the largest rank correlation (Spearman) within five seconds either way.
- The chance is that of a circular shift: the response is turned against the signal by every
  possible time but small ones, and each time the best lag is taken again. A series that follows
  itself from second to second keeps doing so when it is turned, so long bursts do not pass for
  evidence as they would in a test of independent points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stallscope.units import US_PER_SECOND

Values = npt.NDArray[np.float64]

MAX_LAG_US = 5 * US_PER_SECOND
MIN_POINTS = 30
MIN_SHIFTS = 200
_MAX_PAIRS = 120_000
_TIE = 1e-9
"""Sums over all shifts go through a Fourier transform, which leaves noise in the last digits."""


@dataclass(frozen=True, slots=True)
class Relation:
    """What two series on the same windows have to do with each other.

    Attributes:
        points: Windows in which both are known.
        reason: Why nothing can be said; empty when something can. Then all figures are None.
        slope: Units of the response per unit of the signal, at the lag.
        correlation: Rank correlation at the lag, -1 to 1.
        lag_us: How much later the response follows; negative when it comes first. None when the
            windows are too long to tell, or when the two do not rise together at any lag.
        chance: How often a turned response fits as well or better, at least 1 / (shifts + 1).
        shifts: Shifts tried.
        chance_reason: Why chance is None; empty when it is not.
    """

    points: int
    reason: str = ""
    slope: float | None = None
    correlation: float | None = None
    lag_us: int | None = None
    chance: float | None = None
    shifts: int = 0
    chance_reason: str = ""


def relate(signal: Values, response: Values, step_us: int, grain: float) -> Relation:
    """Return how a response follows a signal.

    Args:
        signal: One value per window, in order of time without holes; NaN where unknown.
        response: The same windows.
        step_us: Length of a window.
        grain: Smallest difference of the signal that means a thing.
    """
    pairs = _known_pairs(signal, response)
    points = len(pairs[0])
    reason = _why_not(*pairs, grain)
    if reason:
        return Relation(points, reason)
    most = MAX_LAG_US // step_us
    fits = _fits(signal, response)
    lag = _best_lag(fits, most)
    rises = fits[lag] > 0
    chance, shifts = _chance(fits, most)
    few = shifts < MIN_SHIFTS
    return Relation(
        points,
        slope=_slope(*_known_pairs(*aligned(signal, response, lag if rises else 0))),
        correlation=float(fits[lag]),
        lag_us=lag * step_us if rises and most else None,
        chance=None if few else chance,
        shifts=shifts,
        chance_reason=f"{shifts} shifts are possible, {MIN_SHIFTS} are needed" if few else "",
    )


def on_grid(wall_us: npt.NDArray[np.int64], values: Values, since_us: int, step_us: int) -> Values:
    """Return values placed on windows without holes up to the last of them, NaN where none is.

    Args:
        wall_us: Begin of each value's window, not before ``since_us``.
        values: The values.
        since_us: Begin of the first window.
        step_us: Length of a window.
    """
    index = (wall_us - since_us) // step_us
    grid = np.full(int(index.max()) + 1 if len(index) else 0, np.nan)
    grid[index] = values
    return grid


def _why_not(signal: Values, response: Values, grain: float) -> str:
    """Return why known pairs say nothing, or an empty text."""
    if len(signal) < MIN_POINTS:
        return f"{len(signal)} windows in which both are known, {MIN_POINTS} are needed"
    if np.ptp(signal) < grain:
        return "the copy path did the same all the time"
    if np.ptp(response) == 0:
        return "inter-token latency was the same all the time"
    return ""


def _fits(signal: Values, response: Values) -> Values:
    """Return the rank correlation of all known pairs (signal[t], response[t + s]) by shift s.

    Times are turned round at the end, so that each shift uses every window. A shift without
    enough pairs fits not at all: -1.
    """
    x, x_known = _ranked(signal)
    y, y_known = _ranked(response)
    count = _turned(x_known, y_known)
    sum_x, sum_y = _turned(x, y_known), _turned(x_known, y)
    spread_x = count * _turned(x * x, y_known) - sum_x**2
    spread_y = count * _turned(x_known, y * y) - sum_y**2
    enough = (count > MIN_POINTS / 2) & (spread_x > _TIE) & (spread_y > _TIE)
    fits = np.full(len(x), -1.0)
    np.divide(
        count * _turned(x, y) - sum_x * sum_y,
        np.sqrt(np.where(enough, spread_x * spread_y, 1.0)),
        out=fits,
        where=enough,
    )
    return fits


def _ranked(values: Values) -> tuple[Values, Values]:
    """Return ranks scaled to -0.5 to 0.5, 0 where unknown, and 1 where known; ties share a rank."""
    known = ~np.isnan(values)
    _, place, count = np.unique(values[known], return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count + 1) / 2
    ranks = np.zeros(len(values))
    ranks[known] = middle[place] / max(1, known.sum() - 1) - 0.5
    return ranks, known.astype(np.float64)


def _turned(first: Values, second: Values) -> Values:
    """Return by shift s the sum of first[t] * second[t + s], times turned round at the end."""
    spectrum = np.conj(np.fft.rfft(first)) * np.fft.rfft(second)
    return np.fft.irfft(spectrum, n=len(first))


def _best_lag(fits: Values, most: int) -> int:
    """Return the lag in windows with the best fit; of equal ones the shortest."""
    lags = sorted(range(-most, most + 1), key=abs)
    return max(lags, key=lambda lag: round(float(fits[lag]), 9))


def _chance(fits: Values, most: int) -> tuple[float, int]:
    """Return how often a shift fits as well as none, and the number of shifts.

    Left out are shifts so small that lags of the one and of the other overlap.
    """
    best = np.max([np.roll(fits, -lag) for lag in range(-most, most + 1)], axis=0)
    nearest = 2 * most + 1
    tried = best[nearest : len(best) - nearest + 1]
    if not len(tried):
        return 1.0, 0
    return float((1 + (tried >= best[0] - _TIE).sum()) / (1 + len(tried))), len(tried)


def aligned(signal: Values, response: Values, lag: int) -> tuple[Values, Values]:
    """Return signal[t] and response[t + lag] for every t that both have; nothing is turned round.

    Args:
        signal: One value per window.
        response: The same windows.
        lag: Windows by which the response follows; negative when it comes first.
    """
    length = len(signal) - abs(lag)
    return signal[max(0, -lag) :][:length], response[max(0, lag) :][:length]


def _known_pairs(x: Values, y: Values) -> tuple[Values, Values]:
    """Return the pairs of which both are known."""
    known = ~(np.isnan(x) | np.isnan(y))
    return x[known], y[known]


def _slope(x: Values, y: Values) -> float | None:
    """Return the weighed median slope over pairs of points, None when no pair differs in x.

    Of many points those pairs are taken that lie an evenly spaced set of distances apart, so that
    every point counts alike and the answer is the same every time.
    """
    distances = np.arange(1, len(x) // 2 + 1)
    wanted = max(1, _MAX_PAIRS // max(1, len(x)))
    if len(distances) > wanted:
        distances = distances[np.linspace(0, len(distances) - 1, wanted).astype(int)]
    run = np.concatenate([np.roll(x, -distance) - x for distance in distances])
    rise = np.concatenate([np.roll(y, -distance) - y for distance in distances])
    differ = run != 0
    if not differ.any():
        return None
    slopes, weights = rise[differ] / run[differ], np.abs(run[differ])
    order = np.argsort(slopes)
    half = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    return float(slopes[order[min(half, len(order) - 1)]])
