"""What people may ask of the GPU sources over HTTP: read fast for a while, or let the driver go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from collector.gpu_requests import LONGEST_BURST_S, LONGEST_RELEASE_S, GpuRequests
from stallscope.clock import Clock
from stallscope.exposition.reply import Reply
from stallscope.units import US_PER_SECOND

_BURST, _RELEASE = "burst_seconds", "release_seconds"
_MOST: Mapping[str, int] = {_BURST: LONGEST_BURST_S, _RELEASE: LONGEST_RELEASE_S}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WANTED = "send " + " or ".join(f'{{"{name}": 1 to {most}}}' for name, most in _MOST.items())


class OrderError(ValueError):
    """An order is not what can be asked for; the message says what is."""


def parse_order(body: bytes) -> tuple[str, int]:
    """Return what is wanted, ``burst_seconds`` or ``release_seconds``, and for how many seconds.

    Raises:
        OrderError: The body is no JSON, asks for something else, or for too long.
    """
    try:
        order = json.loads(body)
    except (ValueError, RecursionError) as error:
        msg = f"not JSON ({type(error).__name__}): {_WANTED}"
        raise OrderError(msg) from error
    if not isinstance(order, dict) or len(order) != 1 or not order.keys() <= _MOST.keys():
        msg = f"one order at a time: {_WANTED}"
        raise OrderError(msg)
    ((name, seconds),) = order.items()
    if type(seconds) is not int or not 1 <= seconds <= _MOST[name]:
        msg = f"{name} must be a whole number of 1 to {_MOST[name]}: {_WANTED}"
        raise OrderError(msg)
    return name, seconds


class GpuOrders:
    """Takes orders for the GPU sources; the later one of a kind replaces the earlier one.

    Args:
        requests: Where the sources look.
        clock: Says until when an order holds.
    """

    def __init__(self, requests: GpuRequests, clock: Clock) -> None:
        self._requests = requests
        self._clock = clock

    def answer(self, body: bytes) -> Reply:
        """Answer POST /gpu: 200 and until when the order holds, or 400 and what can be asked."""
        try:
            name, seconds = parse_order(body)
        except OrderError as error:
            return Reply.text(HTTPStatus.BAD_REQUEST, str(error))
        now = self._clock.now()
        take = self._requests.burst if name == _BURST else self._requests.release
        take(seconds, now.mono_us)
        return _until(name, seconds, now.wall_us + seconds * US_PER_SECOND)


def _until(name: str, seconds: int, wall_us: int) -> Reply:
    until = (_EPOCH + timedelta(microseconds=wall_us)).isoformat(timespec="seconds")
    told = {name: seconds, "until": until.replace("+00:00", "Z"), "until_wall_us": wall_us}
    return Reply(HTTPStatus.OK, json.dumps(told).encode() + b"\n", "application/json")
