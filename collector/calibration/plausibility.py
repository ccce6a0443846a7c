"""Whether measured rates can be true."""

from __future__ import annotations

import math

from collector.calibration.rates import MeasureError, Rates
from collector.link_capacity import LinkState

_ALLOWANCE = 1.05
"""Above the raw rate there is nothing; clocks of a link and of an event differ by far less."""
_NAMES = {
    "rx": "H2D",
    "tx": "D2H",
    "rx_together": "H2D beside D2H",
    "tx_together": "D2H beside H2D",
}


def check_rates(rates: Rates, state: LinkState | None) -> None:
    """Refuse rates that no such link can have.

    Raises:
        MeasureError: The link's state is unknown, so that the rates hold for nothing; or a rate is
            no positive number, or above what the link carries. The message names the values.
    """
    if state is None:
        msg = "neither generation nor width of the link could be read while copies ran"
        raise MeasureError(msg)
    raw = state.raw
    if raw is None:
        raise MeasureError(f"nothing is known about a link of {state}")
    for key, name in _NAMES.items():
        rate: float | None = getattr(rates, key)
        if rate is None:
            continue
        if not math.isfinite(rate) or rate <= 0:
            raise MeasureError(f"{name} came out as {rate / 1e9:g} GB/s, which is no rate")
        if rate > _ALLOWANCE * raw:
            msg = f"{name} came out as {rate / 1e9:.2f} GB/s, but a link of {state} carries {{}}"
            raise MeasureError(msg.format(f"at most {raw / 1e9:.2f} GB/s"))
