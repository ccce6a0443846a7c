"""The other end of the wire, written from the format's description alone: no code of the tap."""

from __future__ import annotations

import json
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

STEPS, GAPS, REQUESTS = 1, 2, 3
MISSING = {"B": 255, "H": 65_535, "I": 4_294_967_295, "q": 9_223_372_036_854_775_807}
_SIZES = {"B": 1, "H": 2, "I": 4, "q": 8, "f": 4}


class Datagram(NamedTuple):
    kind: int
    header: dict[str, Any]
    rows: list[dict[str, Any]]  # missing is None


def decode(data: bytes) -> Datagram:
    assert data[:4] == b"SSTP"
    version, kind, zero, length = struct.unpack("<BBHI", data[4:12])
    assert (version, zero) == (1, 0)
    place = 12 + length
    assert place % 8 == 0
    header = json.loads(data[12:place].decode("utf-8"))
    columns: dict[str, list[Any]] = {}
    count = 0 if kind == REQUESTS else header["rows"]
    for name, code in header["columns"]:
        size = _SIZES[code] * count
        values = struct.unpack(f"<{count}{code}", data[place : place + size])
        padding = -size % 8
        assert data[place + size : place + size + padding] == bytes(padding)
        columns[name] = [_known(value, code) for value in values]
        place += size + padding
    assert place == len(data)
    return Datagram(kind, header, [dict(zip(columns, row)) for row in zip(*columns.values())])


def _known(value: Any, code: str) -> Any:
    missing = value != value if code == "f" else value == MISSING[code]  # noqa: PLR0124 - NaN
    return None if missing else value


class Collector:
    """Listens at a path and decodes what comes."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
        self._socket.bind(str(path))
        self._socket.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        self._path = path
        self.raw: list[bytes] = []

    def read(self) -> None:
        while True:
            try:
                self.raw.append(self._socket.recv(256 * 1024))
            except BlockingIOError:
                return

    def wait_for(self, is_there: Callable[[Collector], object], seconds: float = 10) -> None:
        """Read until something is there; fails when it does not come."""
        deadline = time.monotonic() + seconds
        self.read()
        while not is_there(self):
            assert time.monotonic() < deadline, f"did not come; got {self.datagrams}"
            time.sleep(0.01)
            self.read()

    @property
    def datagrams(self) -> list[Datagram]:
        return [decode(data) for data in self.raw]

    def rows(self, kind: int) -> list[dict[str, Any]]:
        return [row for gram in self.datagrams if gram.kind == kind for row in gram.rows]

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [
            request
            for gram in self.datagrams
            if gram.kind == REQUESTS
            for request in gram.header["requests"]
        ]

    @property
    def ended(self) -> list[dict[str, Any]]:
        return [request for request in self.requests if request["end_mono_us"] is not None]

    def close(self) -> None:
        self._socket.close()
        self._path.unlink()


@contextmanager
def socket_folder() -> Iterator[Path]:
    """Make a folder with a short name: a socket's path has at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="tap-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
