from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from collector.gpu_requests import GpuRequests
from tests.collector.stand_ins import SECOND

_NOW = 500 * SECOND


def test_a_burst_holds_until_its_time_is_up() -> None:
    requests = GpuRequests()
    assert not requests.is_burst(_NOW)
    requests.burst(10, _NOW)
    assert requests.is_burst(_NOW + 10 * SECOND - 1)
    assert not requests.is_burst(_NOW + 10 * SECOND)
    assert requests.release_left_us(_NOW) == 0


def test_a_release_holds_until_its_time_is_up() -> None:
    requests = GpuRequests()
    requests.release(0.5, _NOW)
    assert requests.release_left_us(_NOW + SECOND // 2 - 1) > 0
    assert requests.release_left_us(_NOW + SECOND // 4) == SECOND // 4
    assert requests.release_left_us(_NOW + SECOND // 2) == 0
    assert requests.release_left_us(_NOW + SECOND) == 0
    assert not requests.is_burst(_NOW)


def test_the_later_request_holds_and_zero_ends_it() -> None:
    requests = GpuRequests()
    requests.release(3_600, _NOW)
    requests.release(0, _NOW + SECOND)
    assert requests.release_left_us(_NOW + SECOND) == 0


@pytest.mark.parametrize(
    ("ask", "seconds"),
    [
        (GpuRequests.burst, 61),
        (GpuRequests.burst, -1),
        (GpuRequests.burst, math.nan),
        (GpuRequests.release, 3_601),
    ],
)
def test_what_is_out_of_range_is_refused(
    ask: Callable[[GpuRequests, float, int], None], seconds: float
) -> None:
    with pytest.raises(ValueError, match="want 0 to"):
        ask(GpuRequests(), seconds, _NOW)
