"""What the taps cost in line, by their own count: it stands in the header of each datagram."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.live.engine import Engine
from lab.live.load import run_load
from lab.live.stage import load_of
from lab.quantity import show_us
from lab.report import Check
from stallscope.errors import StallscopeError

_PREFIX = struct.Struct("<4sBBHI")
_MOST_BYTES = 128 * 1024
_LISTEN_S = 5.0
_QUIET_S = 1.0
_P50_BAR_US = 20.0
_P99_BAR_US = 100.0


@dataclass(frozen=True, slots=True)
class InlineCost:
    """Cost of one call since the tap's start.

    Attributes:
        p50_us: Median.
        p99_us: 99th percentile.
        max_us: Longest.
        calls: How many.
    """

    p50_us: float
    p99_us: float
    max_us: float
    calls: int


def read_inline_costs(engine: Engine, tap_socket: Path) -> Mapping[str, InlineCost]:
    """Take the collector's place for some seconds under load and return what the tap says.

    Args:
        engine: Its taps deliver to the socket.
        tap_socket: Nobody may listen there.

    Raises:
        StallscopeError: No tap said anything.
    """
    tap_socket.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tap_socket))
        listening.settimeout(_QUIET_S)
        load = threading.Thread(target=run_load, args=(load_of(engine, 16, _LISTEN_S),))
        load.start()
        costs: Mapping[str, InlineCost] = {}
        while load.is_alive():
            try:
                costs = parse_costs(listening.recv(_MOST_BYTES)) or costs
            except TimeoutError:
                continue
        load.join()
    tap_socket.unlink()
    if not costs:
        raise StallscopeError("no tap told its cost", "Is the tap in the engine's environment?")
    return costs


def parse_costs(datagram: bytes) -> Mapping[str, InlineCost]:
    """Return the costs in a datagram's header by call, ``record`` and ``send``."""
    *_, length = _PREFIX.unpack_from(datagram)
    header = json.loads(datagram[_PREFIX.size : _PREFIX.size + length])
    return {
        call: InlineCost(p50, p99, most, int(calls))
        for call, (p50, p99, most, calls) in header.get("inline_us", {}).items()
    }


def check_costs(costs: Mapping[str, InlineCost], step_us: float, outputs: float) -> list[Check]:
    """Return whether the costs are below their bars, with their share of a median step.

    Args:
        costs: Of both calls.
        step_us: Length of the median step.
        outputs: Outputs of a step, mean: so often something is sent.
    """
    checks = [
        Check(
            f"in line, {call}",
            cost.p50_us <= _P50_BAR_US and cost.p99_us <= _P99_BAR_US,
            f"p50 {cost.p50_us:.1f} us, p99 {cost.p99_us:.1f} us, max {show_us(cost.max_us)}, "
            f"{cost.calls:,} calls",
        )
        for call, cost in costs.items()
    ]
    total_us = costs["record"].p50_us + outputs * costs["send"].p50_us
    share = total_us / step_us
    detail = f"{total_us:.0f} us of {show_us(step_us)} ({outputs:.1f} outputs): {share * 100:.2f} %"
    return [
        *checks,
        Check("in line, share of the median step", holds=None, detail=detail, judged=False),
    ]
