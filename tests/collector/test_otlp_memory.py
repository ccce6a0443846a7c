"""Hostile bodies at once: what they take is bounded, and goes back."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from collector.otlp_bounds import LONGEST_BODY

_SERVER = """
import sys
from collector.otlp_http import listen
from collector.otlp_intake import Intake
from stallscope.clock import SystemClock

listener = listen(Intake(SystemClock()), ("127.0.0.1", 0), None)
print(listener.port, flush=True)
sys.stdin.read()
"""
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_BODIES = {
    # As a tree of messages 370 MB, as lists of bytes 60 MB; one at a time is decoded.
    "resources": (b"\x0a\x00" * (LONGEST_BODY // 2), _PROTOBUF),
    "objects": (b"[" + b'{"a":1},' * 262_000 + b"{}]", _JSON),
    "texts": (b"[" + b'"abcd",' * (LONGEST_BODY // 7 - 1) + b"1]", _JSON),
}


@pytest.fixture
def server() -> Iterator[tuple[int, int]]:
    """Return process id and port of a receiver by itself."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        process.communicate("")


def _megabytes(pid: int, line: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (found,) = [one for one in status.splitlines() if one.startswith(f"{line}:")]
    return int(found.split()[1]) // 1_024


def _send(port: int, body: bytes, kind: str) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/v1/traces", body, {"Content-Type": kind})
        assert connection.getresponse().status in {200, 400, 429}
    except (ConnectionError, TimeoutError):
        pass  # one too many at once
    finally:
        connection.close()


def test_eight_hostile_bodies_at_once_take_little_and_leave_nothing(
    server: tuple[int, int],
) -> None:
    pid, port = server
    before = _megabytes(pid, "VmRSS")
    for body, kind in _BODIES.values():
        threads = [threading.Thread(target=_send, args=(port, body, kind)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    # One tree of 60 MB, and eight bodies of 4 MB that are each read and waiting.
    assert _megabytes(pid, "VmHWM") - before < 150
    assert _megabytes(pid, "VmRSS") - before < 60
