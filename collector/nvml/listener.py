"""What the child is asked, until nobody asks any more or it is told to end."""

from __future__ import annotations

import signal
from types import FrameType
from typing import BinaryIO


class _EndError(Exception):
    """SIGTERM came while we were waiting."""


class Listener:
    """Reads lines, and ends on SIGTERM between two of them.

    A signal during an answer waits for its end, so that NVML is never left in the middle of a call
    and is always shut down (NVIDIA/dcgm-exporter#84). Ctrl-C at a terminal is the parent's to hear.

    Args:
        stream: Where lines come from.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._is_waiting = False
        self._is_over = False
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def next_line(self) -> str:
        """Return the next line without blanks around it; empty when there is none any more."""
        try:
            self._is_waiting = True
            line = b"" if self._is_over else self._stream.readline()
            self._is_waiting = False
        except _EndError:
            return ""
        return line.decode("ascii", "replace").strip()

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self._is_over = True
        if self._is_waiting:
            self._is_waiting = False
            raise _EndError
