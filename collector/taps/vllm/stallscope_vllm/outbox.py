"""Gathers rows into batches and makes datagrams of them; runs in the tap's thread."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from stallscope_vllm.delivery import Batch, Delivery
from stallscope_vllm.wire import GAPS, REQUESTS, STEPS, pack

TAP_VERSION = "0.1.0"

_NS_PER_US = 1_000
_FLUSH_NS = 100_000_000
_MOST_ROWS = {STEPS: 256, GAPS: 1_024, REQUESTS: 128}  # each below 128 KiB
_MOST_FIRST_TOKENS = 1_024
_COST_EVERY_NS = 1_000_000_000
_MOST_VERSION = 64

Costs = dict[str, list[float]]


class Outbox:
    """The batches of one session, on their way.

    Args:
        paths: Sockets to try.
        facts: Keys of the header that the taps learn: server, port, model.
        count_refused: Returns how many records were not taken in line.
        sum_costs: Returns the in-line costs.

    Attributes:
        delivery: What brings the datagrams to the collector.
        lost: Records that could not be read.
    """

    def __init__(
        self,
        paths: Sequence[str],
        facts: dict[str, Any],
        count_refused: Callable[[], int],
        sum_costs: Callable[[], Costs],
    ) -> None:
        self.delivery = Delivery(paths, self._encode)
        self.lost = 0
        self._facts = facts
        self._count_refused = count_refused
        self._sum_costs = sum_costs
        self._session = uuid.uuid4().hex
        self._sequences = {REQUESTS: 0, STEPS: 0, GAPS: 0}
        self._batches = {kind: Batch(kind) for kind in self._sequences}
        self._flush_at_ns = 0
        self._costs: Costs = {}
        self._costs_at_ns = 0

    def add(self, kind: int, *rows: Any) -> None:
        """Add rows of a kind; sends the batch when it is full."""
        batch = self._batches[kind]
        batch.rows.extend(rows)
        if len(batch.rows) >= _MOST_ROWS[kind] or len(batch.first_tokens) >= _MOST_FIRST_TOKENS:
            self._send(kind, time.monotonic_ns())

    def add_first_tokens(self, tokens: Sequence[tuple[int, int, int]]) -> None:
        """Add (engine, wall_us, ttft_us) of first tokens, before their step."""
        self._batches[STEPS].first_tokens.extend(tokens[:_MOST_FIRST_TOKENS])
        self.lost += max(0, len(tokens) - _MOST_FIRST_TOKENS)

    def send_due(self, now_ns: int) -> None:
        """Send what has been gathered for a tenth of a second, and what still waits."""
        if now_ns >= self._flush_at_ns:
            self.flush(now_ns)
        self.delivery.push(now_ns)

    def flush(self, now_ns: int) -> None:
        """Send the batches; requests first, so that a number is known before its chunks come."""
        self._flush_at_ns = now_ns + _FLUSH_NS
        for kind, batch in self._batches.items():
            if batch.rows:
                self._send(kind, now_ns)

    def _send(self, kind: int, now_ns: int) -> None:
        batch, self._batches[kind] = self._batches[kind], Batch(kind)
        self.delivery.send(batch, now_ns)

    def _encode(self, batch: Batch) -> bytes:
        header = self._header(batch)
        if batch.kind == REQUESTS:
            return pack(REQUESTS, {**header, "requests": batch.rows}, ())
        if batch.kind == STEPS:
            header["ttft"] = _first_token_columns(batch.first_tokens)
        return pack(batch.kind, header, batch.rows)

    def _header(self, batch: Batch) -> dict[str, Any]:
        sequence = self._sequences[batch.kind]
        self._sequences[batch.kind] += 1
        return {
            "tap": TAP_VERSION,
            "pid": os.getpid(),
            "session": self._session,
            **self._facts,
            "sequence": sequence,
            "dropped": self._count_refused() + self.lost + self.delivery.lost,
            "wall_us": time.time_ns() // _NS_PER_US,
            "mono_us": time.monotonic_ns() // _NS_PER_US,
            "engine_version": _engine_version(),
            "inline_us": self._read_costs(),
            "rows": len(batch.rows),
        }

    def _read_costs(self) -> Costs:
        """Return the in-line costs, summed up once a second."""
        now_ns = time.monotonic_ns()
        if now_ns >= self._costs_at_ns:
            self._costs_at_ns = now_ns + _COST_EVERY_NS
            self._costs = self._sum_costs()
        return self._costs


def _first_token_columns(tokens: Sequence[tuple[int, int, int]]) -> dict[str, list[int]]:
    engines, walls, durations = zip(*tokens) if tokens else ((), (), ())
    return {"engine": list(engines), "wall_us": list(walls), "ttft_us": list(durations)}


def _engine_version() -> str | None:
    """Return vLLM's version without importing it."""
    version = getattr(sys.modules.get("vllm"), "__version__", None)
    return version[:_MOST_VERSION] if isinstance(version, str) else None
