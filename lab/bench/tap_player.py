"""The taps' side of the socket, in a process of its own.

``python -m lab.bench.tap_player SOCKET ROWS_PER_SECOND`` sends until SIGTERM, then tells what it
sent.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from lab.bench.tap_tape import EngineTap, Letter
from lab.synthetic.tokens import make_tape, usual_running
from stallscope.clock import SystemClock
from stallscope.units import US_PER_SECOND

_TAPE_S = 10
_ENGINES = 8
_USUAL_RATE = 20_000
_TURN_S = 0.1 / _ENGINES  # each tap sends ten times a second, each at its own moment
_PATIENCE_S = 2.0  # so long a tap keeps what nobody takes
_START_S = 30.0


class Player:
    """Sends what taps tell, and counts it.

    Args:
        path: Where the collector listens.

    Attributes:
        sent: Rows by kind, datagrams, and rows that nobody took within two seconds.
    """

    def __init__(self, path: Path) -> None:
        self.sent: Counter[str] = Counter(gaps=0, steps=0, datagrams=0, unsent=0)
        self._socket = _connect(path)
        self._socket.settimeout(_PATIENCE_S)

    def send(self, letter: Letter) -> None:
        """Send one datagram, waiting while the collector's queue is full."""
        try:
            self._socket.send(letter.data)
        except OSError:
            self.sent["unsent"] += letter.gaps
            return
        self.sent.update(gaps=letter.gaps, steps=letter.steps, datagrams=1)


def _connect(path: Path) -> socket.socket:
    """Return a socket whose other end is the collector; waits until there is one."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    give_up = time.monotonic() + _START_S
    while True:
        try:
            made.connect(str(path))
            return made
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)


def play(path: Path, rows_per_second: int, stop: threading.Event) -> None:
    """Send the rows of eight engines in real time; the load per engine grows with the rate."""
    running = [max(16, count * rows_per_second // _USUAL_RATE) for count in usual_running(_ENGINES)]
    tape = make_tape(rows_per_second, _TAPE_S, running)
    player = Player(path)
    clock = SystemClock()
    begin = clock.now()
    taps = [EngineTap(tape, number, count, begin) for number, count in enumerate(running, start=1)]
    late_us = turn = 0
    while not stop.is_set():
        now = clock.now()
        due_us = begin.mono_us + round(turn * _TURN_S * US_PER_SECOND)
        if now.mono_us < due_us:
            stop.wait((due_us - now.mono_us) / US_PER_SECOND)
            continue
        late_us = max(late_us, now.mono_us - due_us)
        for letter in taps[turn % _ENGINES].take(now):
            player.send(letter)
        turn += 1
    sys.stdout.write(json.dumps({**player.sent, "late_us": late_us}))


def main() -> None:
    """Play until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    play(Path(sys.argv[1]), int(sys.argv[2]), stop)


if __name__ == "__main__":
    main()
