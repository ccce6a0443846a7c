"""Rates that no link can have are refused with their values."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.calibration.plausibility import check_rates
from collector.calibration.rates import MeasureError, Rates
from collector.link_capacity import LinkState
from tests.calibration.gpu_stand_ins import RATES

GEN4 = LinkState(4, 16)  # 16 GT/s, 128b/130b, 16 lanes: 31.508 GB/s


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({"rx": 71.2e9}, r"H2D came out as 71\.20 GB/s, but a link of gen 4 x16 .* 31\.51 GB/s"),
        ({"tx": 33.1e9}, r"D2H came out as 33\.10 GB/s"),
        ({"rx_together": 40e9}, r"H2D beside D2H came out as 40\.00 GB/s"),
        ({"tx_together": 0.0}, r"D2H beside H2D came out as 0 GB/s, which is no rate"),
        ({"tx": -1e9}, r"D2H came out as -1 GB/s, which is no rate"),
        ({"rx": math.nan}, r"H2D came out as nan GB/s, which is no rate"),
        ({"rx": math.inf}, r"H2D came out as inf GB/s, which is no rate"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(rates: dict[str, float], said: str) -> None:
    fine = Rates(rx=25.5e9, tx=26.8e9, rx_together=18.6e9, tx_together=17.5e9)
    check_rates(fine, GEN4)
    with pytest.raises(MeasureError, match=said):
        check_rates(replace(fine, **rates), GEN4)


def test_a_little_above_the_raw_rate_is_a_matter_of_clocks() -> None:
    check_rates(Rates(rx=31.508e9 * 1.04, tx=31.508e9 * 1.04), GEN4)


def test_without_link_state_the_rates_hold_for_nothing() -> None:
    with pytest.raises(MeasureError, match="neither generation nor width"):
        check_rates(RATES, None)
    with pytest.raises(MeasureError, match="nothing is known about a link of gen 9 x16"):
        check_rates(RATES, LinkState(9, 16))


@given(st.floats(), st.floats(), st.none() | st.floats(), st.none() | st.floats())
def test_what_passes_is_a_rate_of_that_link(
    rx: float, tx: float, rx_together: float | None, tx_together: float | None
) -> None:
    try:
        check_rates(Rates(rx, tx, rx_together, tx_together), GEN4)
    except MeasureError:
        return
    told = [rate for rate in (rx, tx, rx_together, tx_together) if rate is not None]
    assert all(0 < rate < 33.1e9 for rate in told)
