"""Gets batches to the collector, or drops and counts them; runs in the tap's own thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stallscope_vllm.sender import BUSY, GONE, SENT, TOO_LONG, Sender

NS_PER_S = 1_000_000_000
RETRY_NS = NS_PER_S  # how often a missing collector is looked for
KEEP_NS = 2 * NS_PER_S  # a collector that restarts or hangs no longer than this misses nothing
KEEP_BYTES = 1024 * 1024


@dataclass
class Batch:
    """Rows of one kind that go out together.

    Attributes:
        kind: Of wire.COLUMNS.
        rows: Column values in the order of the kind's columns; for requests, their objects.
        first_tokens: For steps, (engine, wall_us, ttft_us) of each first token.
    """

    kind: int
    rows: list[Any] = field(default_factory=list)
    first_tokens: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def records(self) -> int:
        """How many records are lost when it is."""
        return len(self.rows)

    def halves(self) -> list[Batch]:
        """Return it in two, or nothing when it cannot be split."""
        middle = len(self.rows) // 2
        if not middle:
            return []
        return [
            Batch(self.kind, self.rows[:middle], self.first_tokens),
            Batch(self.kind, self.rows[middle:]),
        ]


@dataclass
class _Letter:
    """A datagram that waits for a collector that is gone, or whose queue is full."""

    datagram: bytes
    records: int
    closed_ns: int


class Delivery:
    """Sends at once; keeps for two seconds what nobody takes.

    Args:
        paths: Sockets to try.
        encode: Makes the datagram of a batch.

    Attributes:
        lost: Records that were dropped here.
        connections: How often a collector was found; it then knows nothing of what came before.
    """

    def __init__(self, paths: Sequence[str], encode: Callable[[Batch], bytes]) -> None:
        self.lost = 0
        self.connections = 0
        self._sender = Sender(paths)
        self._encode = encode
        self._waiting: deque[_Letter] = deque()
        self._waiting_bytes = 0
        self._retry_at_ns = 0
        self._gone_since_ns: int | None = None

    def is_given_up(self, now_ns: int) -> bool:
        """Return whether nobody has listened for so long that collecting rows is in vain."""
        return self._gone_since_ns is not None and now_ns - self._gone_since_ns > KEEP_NS

    @property
    def has_waiting(self) -> bool:
        """Whether something is kept for a later try."""
        return bool(self._waiting)

    def send(self, batch: Batch, now_ns: int) -> None:
        """Send a batch, after everything that still waits."""
        self.push(now_ns)
        datagram = self._encode(batch)
        outcome = BUSY if self._waiting else self._sender.send(datagram)
        if outcome in {BUSY, GONE}:
            self._keep(_Letter(datagram, batch.records, now_ns))
        elif outcome == TOO_LONG:
            self._send_halves(batch, now_ns)

    def push(self, now_ns: int) -> None:
        """Send what waits, when there is somebody; drop what has waited too long."""
        while self._waiting and now_ns - self._waiting[0].closed_ns > KEEP_NS:
            self.lost += self._take_first().records
        while self._is_reachable(now_ns) and self._waiting:
            outcome = self._sender.send(self._waiting[0].datagram)
            if outcome == GONE:
                continue
            if outcome == BUSY:
                return
            letter = self._take_first()
            if outcome != SENT:
                self.lost += letter.records

    def close(self) -> None:
        """Let go of the socket; what waits is lost."""
        while self._waiting:
            self.lost += self._take_first().records
        self._sender.close()

    def _is_reachable(self, now_ns: int) -> bool:
        """Return whether somebody listens, looking at most once a second."""
        if self._sender.is_connected:
            return True
        if now_ns < self._retry_at_ns:
            return False
        self._retry_at_ns = now_ns + RETRY_NS
        if not self._sender.connect():
            self._gone_since_ns = self._gone_since_ns or now_ns
            return False
        self._gone_since_ns = None
        self.connections += 1
        return True

    def _send_halves(self, batch: Batch, now_ns: int) -> None:
        """Send a batch in two, where the machine's sockets take less than ours usually do."""
        halves = batch.halves()
        if not halves:
            self.lost += batch.records
        for half in halves:
            self.send(half, now_ns)

    def _keep(self, letter: _Letter) -> None:
        """Keep a datagram for a later try; the oldest make room."""
        self._waiting.append(letter)
        self._waiting_bytes += len(letter.datagram)
        while self._waiting_bytes > KEEP_BYTES:
            self.lost += self._take_first().records

    def _take_first(self) -> _Letter:
        letter = self._waiting.popleft()
        self._waiting_bytes -= len(letter.datagram)
        return letter
