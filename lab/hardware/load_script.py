"""Puts known loads on a GPU as told on its input, one JSON object a line, and answers each in kind.

It runs in a Python that has PyTorch or CuPy, so it imports nothing of stallscope; the copies are
those of ``copy_link.py``, loaded from the path that it is given.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

_LOAD_BYTES = 64 << 20
_QUEUED = 64
"""Copies that are enqueued before they are waited for."""
_KERNELS = 300
"""Per step of decoding: what a model of 60 layers launches about."""
_ELEMENTS = 1 << 16
_RESULT_BYTES = 1_024


class Decoder(Protocol):
    """Does what an engine does for one token: many small kernels, and a small copy to the host."""

    def step(self) -> None:
        """Do one step and wait for its result."""


class TorchDecoder:
    """One step by PyTorch."""

    def __init__(self) -> None:
        torch: Any = importlib.import_module("torch")
        self._torch = torch
        self._values = torch.ones(_ELEMENTS, device="cuda:0")
        self._bytes = torch.empty(_RESULT_BYTES, dtype=torch.uint8, device="cuda:0")
        self._result = torch.empty(_RESULT_BYTES, dtype=torch.uint8, pin_memory=True)

    def step(self) -> None:
        """Do one step and wait for its result."""
        for _ in range(_KERNELS):
            self._values.mul_(1.0)
        self._result.copy_(self._bytes, non_blocking=True)
        self._torch.cuda.synchronize()


class CupyDecoder:
    """One step by CuPy."""

    def __init__(self) -> None:
        cupy: Any = importlib.import_module("cupy")
        self._cupy = cupy
        self._values = cupy.ones(_ELEMENTS, dtype="float32")
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._bytes = cupy.cuda.alloc(_RESULT_BYTES)
        self._result = cupy.cuda.alloc_pinned_memory(_RESULT_BYTES)

    def step(self) -> None:
        """Do one step and wait for its result."""
        runtime = self._cupy.cuda.runtime
        with self._stream:
            for _ in range(_KERNELS):
                self._cupy.multiply(self._values, 1.0, out=self._values)
        kind = runtime.memcpyDeviceToHost
        stream = self._stream.ptr
        runtime.memcpyAsync(self._result.ptr, self._bytes.ptr, _RESULT_BYTES, kind, stream)
        self._stream.synchronize()


DECODERS: Mapping[str, Callable[[], Decoder]] = {"torch": TorchDecoder, "cupy": CupyDecoder}


class Loads:
    """Carries out orders.

    Args:
        copy_link: The module of that name.
        library: torch or cupy.
    """

    def __init__(self, copy_link: Any, library: str) -> None:  # noqa: ANN401 - loaded by path
        self._make = copy_link.KINDS[library]
        self._library = library
        self._copies: dict[int, Any] = {}
        self._decoder: Decoder | None = None
        self._copies_of(_LOAD_BYTES)  # CUDA's start copies as well, so it comes before any order

    def ready(self) -> dict[str, object]:
        """Return what to say first."""
        return {"library": self._library, "version": self._copies_of(_LOAD_BYTES).version}

    def carry_out(self, order: Mapping[str, Any]) -> dict[str, object]:
        """Return the answer to an order."""
        if order["do"] == "copy":
            return self._copy(order["direction"], order["size"], order["count"])
        if order["do"] == "load":
            return self._load(order["direction"], order["seconds"])
        return self._decode(order["seconds"])

    def _copy(self, direction: str, size: int, count: int) -> dict[str, object]:
        """Copy so many times."""
        copies = self._copies_of(size)
        began_ns = time.monotonic_ns()
        for done in range(0, count, _QUEUED):
            copies.copy(direction, min(_QUEUED, count - done))
            copies.wait()
        return _carried(size * count, began_ns)

    def _load(self, direction: str, seconds: float) -> dict[str, object]:
        """Copy for so long; the link rests for some ten microseconds after each 256 MiB."""
        copies = self._copies_of(_LOAD_BYTES)
        began_ns = time.monotonic_ns()
        deadline_s = time.monotonic() + seconds
        count = 0
        while time.monotonic() < deadline_s:
            copies.copy(direction, 4)
            copies.wait()
            count += 4
        return _carried(_LOAD_BYTES * count, began_ns)

    def _decode(self, seconds: float) -> dict[str, object]:
        """Decode for so long, as fast as it goes."""
        if self._decoder is None:
            self._decoder = DECODERS[self._library]()
            self._decoder.step()  # the first launch loads kernels
        steps_us = []
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s:
            began_ns = time.monotonic_ns()
            self._decoder.step()
            steps_us.append((time.monotonic_ns() - began_ns) / 1000)
        return {"steps_us": steps_us}

    def _copies_of(self, size: int) -> Any:  # noqa: ANN401 - of a module loaded by path
        if size not in self._copies:
            self._copies[size] = self._make(size)
        return self._copies[size]


def _carried(size: int, began_ns: int) -> dict[str, object]:
    return {"bytes": size, "began_ns": began_ns, "ended_ns": time.monotonic_ns()}


def _load_module(path: Path) -> Any:  # noqa: ANN401 - its types are not known here
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _say(answer: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main(copy_link_path: str) -> int:
    """Answer orders until there are none; the status of ``copy_link`` when neither library is."""
    copy_link = _load_module(Path(copy_link_path))
    library = copy_link.find_library()
    if library is None:
        return int(copy_link.NO_LIBRARY)
    loads = Loads(copy_link, library)
    _say(loads.ready())
    for line in sys.stdin:
        _say(loads.carry_out(json.loads(line)))
    return 0


if __name__ == "__main__":
    if sys.path and sys.path[0] == str(Path(__file__).resolve().parent):
        del sys.path[0]  # a file beside this one must not stand in for a module of the library
    sys.exit(main(sys.argv[1]))
