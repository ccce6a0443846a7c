"""As much of PyTorch as the copy script uses, over a simulated link."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace

import simulated_link  # type: ignore[import-not-found]  # lies beside it on PYTHONPATH

__version__ = "2.9.0+stand.in"
uint8 = "uint8"


class _Tensor:
    def __init__(self, size: int, *, on_gpu: bool) -> None:
        self.size = size
        self.on_gpu = on_gpu

    def copy_(self, source: _Tensor, *, non_blocking: bool) -> None:
        assert non_blocking, "a blocking copy would not overlap"
        assert self.on_gpu != source.on_gpu
        stream = _CURRENT[-1]
        direction = "rx" if self.on_gpu else "tx"
        stream.directions.add(direction)
        assert stream.directions == {direction}, "one stream a direction"
        simulated_link.SIMULATION.enqueue(direction, float(self.size))


class _Stream:
    def __init__(self) -> None:
        self.directions: set[str] = set()


class _Event:
    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        self._event = simulated_link.Event()

    def record(self, stream: _Stream) -> None:
        (direction,) = stream.directions or {_unused_direction()}
        simulated_link.SIMULATION.enqueue(direction, self._event)

    def elapsed_time(self, end: _Event) -> float:
        return float(1000 * (end._event.seconds - self._event.seconds))


_CURRENT: list[_Stream] = []
_STREAMS: list[_Stream] = []


def _unused_direction() -> str:
    """Return the direction of a stream that has not copied yet."""
    used = {direction for stream in _STREAMS for direction in stream.directions}
    return next(iter({"rx", "tx"} - used), "rx")


def _new_stream() -> _Stream:
    _STREAMS.append(_Stream())
    return _STREAMS[-1]


@contextlib.contextmanager
def _use(stream: _Stream) -> Iterator[None]:
    _CURRENT.append(stream)
    yield
    _CURRENT.pop()


def empty(size: int, dtype: str, device: str = "", *, pin_memory: bool = False) -> _Tensor:
    """Return a buffer."""
    assert dtype == uint8
    assert pin_memory != (device == "cuda:0"), "host buffers must be pinned"
    simulated_link.check_room(size)
    return _Tensor(size, on_gpu=bool(device))


def _properties(index: int) -> SimpleNamespace:
    assert index == 0
    return SimpleNamespace(pci_domain_id=0, pci_bus_id=0x3B, pci_device_id=0)


cuda = SimpleNamespace(
    Stream=_new_stream,
    Event=_Event,
    stream=_use,
    synchronize=simulated_link.SIMULATION.run,
    get_device_properties=_properties,
)
