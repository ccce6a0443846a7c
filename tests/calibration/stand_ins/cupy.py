"""As much of CuPy as the copy script uses, over a simulated link."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import simulated_link  # type: ignore[import-not-found]  # lies beside it on PYTHONPATH

__version__ = "14.2.0"
_KINDS = {1: "rx", 2: "tx"}  # cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost
_NUMBERS = itertools.count(1)
_DIRECTIONS: dict[int, str] = {}
_HOST, _GPU = 1 << 40, 1 << 41


def _pointer(place: int, size: int) -> SimpleNamespace:
    simulated_link.check_room(size)
    return SimpleNamespace(ptr=place + next(_NUMBERS))


def _copy(target: int, source: int, size: int, kind: int, stream: int) -> None:
    direction = _KINDS[kind]
    wanted = (_GPU, _HOST) if direction == "rx" else (_HOST, _GPU)
    assert (target & ~0xFFFF, source & ~0xFFFF) == wanted
    assert _DIRECTIONS.setdefault(stream, direction) == direction, "one stream a direction"
    simulated_link.SIMULATION.enqueue(direction, float(size))


class _Event(simulated_link.Event):  # type: ignore[misc]  # no types here
    def record(self, stream: SimpleNamespace) -> None:
        unused = {"rx", "tx"} - set(_DIRECTIONS.values())
        direction = _DIRECTIONS.get(stream.ptr) or next(iter(unused), "rx")
        simulated_link.SIMULATION.enqueue(direction, self)


cuda = SimpleNamespace(
    Stream=lambda non_blocking: SimpleNamespace(ptr=next(_NUMBERS), non_blocking=non_blocking),
    Event=_Event,
    get_elapsed_time=lambda start, end: 1000 * (end.seconds - start.seconds),
    alloc_pinned_memory=lambda size: _pointer(_HOST, size),
    alloc=lambda size: _pointer(_GPU, size),
    runtime=SimpleNamespace(
        memcpyHostToDevice=1,
        memcpyDeviceToHost=2,
        memcpyAsync=_copy,
        deviceSynchronize=simulated_link.SIMULATION.run,
        deviceGetPCIBusId=lambda index: f"0000:3B:0{index}.0",
    ),
)
