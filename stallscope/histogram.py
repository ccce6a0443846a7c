"""Log-bucket histograms: constant relative error, merged by adding counts.

Bucket ``i`` holds values in ``(GAMMA**(i-1), GAMMA**i]`` microseconds. A quantile is answered with
the bucket's ``2 * GAMMA**i / (GAMMA + 1)``, wrong by at most (GAMMA - 1) / (GAMMA + 1), which
is 0.99 % (DDSketch, Masson et al., VLDB 2019).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

GAMMA = 1.02
_LOG_GAMMA = math.log(GAMMA)
ZERO_BUCKET = -1
"""Values of 0 us (several tokens in one chunk) have no logarithm and live here."""


def bucket_of(value_us: int) -> int:
    """Return the bucket of a duration in microseconds; ``ZERO_BUCKET`` for 0 and below."""
    if value_us <= 0:
        return ZERO_BUCKET
    return math.ceil(math.log(value_us) / _LOG_GAMMA - 1e-9)


def buckets_of(values_us: npt.NDArray[np.integer]) -> npt.NDArray[np.int16]:
    """Return the bucket of each duration; the array form of `bucket_of`."""
    with np.errstate(divide="ignore"):
        raw = np.ceil(np.log(values_us.astype(np.float64)) / _LOG_GAMMA - 1e-9)
    return np.where(values_us <= 0, ZERO_BUCKET, raw).astype(np.int16)


def bucket_upper_us(bucket: int) -> float:
    """Return the inclusive upper edge of a bucket in microseconds."""
    return 0.0 if bucket <= ZERO_BUCKET else GAMMA**bucket


def bucket_middle_us(bucket: int) -> float:
    """Return the value that answers for a bucket, with the smallest worst relative error."""
    return 0.0 if bucket <= ZERO_BUCKET else 2 * GAMMA**bucket / (GAMMA + 1)


def quantile_us(counts: Mapping[int, int], q: float) -> float | None:
    """Return the q-quantile of a histogram, or None when it is empty.

    Args:
        counts: Bucket to number of observations.
        q: 0 to 1. The answer covers the observation of rank ``ceil(q * n)``.
    """
    total = sum(counts.values())
    if total == 0:
        return None
    rank = max(1, math.ceil(q * total))
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= rank:
            return bucket_middle_us(bucket)
    return bucket_middle_us(max(counts))
