"""Broken datagrams through the collector's side of the taps: `python -m lab.fuzz.tap`.

Exit code: 0 when nothing crashed, all rows fit their tables and memory stayed, else 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from collector.edges.tap_socket import Datagram
from collector.engine_steps import EngineSteps
from collector.names import PassingStore, StoredNames
from collector.source import Machine, NoData
from collector.tap_hub import TapOptions, build_taps
from collector.tap_inbox import Arrival
from collector.tap_receiver import TapReceiver
from collector.token_gaps import TokenGaps
from lab.fuzz.datagrams import datagrams
from stallscope.clock import Instant
from stallscope.storage.rows import to_batch
from stallscope.units import KIB, US_PER_SECOND

_A_POLL = 200
_WALL_US = 1_790_000_000 * US_PER_SECOND
_MONO_US = 100_000 * US_PER_SECOND
_TICK_US = 100_000
_PAGE_BYTES = 4 * KIB
_MOST_GROWTH_MB = 48
_SENDERS = 5


class FuzzClock:
    """A clock that stands still unless it is moved, so that a seed says all."""

    def __init__(self) -> None:
        self.mono_us = _MONO_US

    def now(self) -> Instant:
        """Return the moment."""
        return Instant(_WALL_US + self.mono_us - _MONO_US, self.mono_us)


class _NoSocket:
    """Stands in for the socket: datagrams are put into the inbox directly."""

    note = ""

    def bind(self) -> None:
        """Listen."""

    def check(self) -> None:
        """Find no fault."""

    def receive(self) -> Datagram | None:
        """Return that there is nothing."""
        return None

    def is_in_place(self) -> bool:
        """Return that it is."""
        return True

    def shut(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Victim:
    """The collector's side of the taps.

    Attributes:
        rows: Rows that came of the datagrams so far.
        rejects: What was refused of them.
        last: The datagrams of the poll that runs.
    """

    def __init__(self) -> None:
        self.clock = FuzzClock()
        names = StoredNames(PassingStore(), self.clock)
        machine = Machine(Path("/proc"), Path("/sys"), "fuzz", self.clock, names)
        taps = build_taps(machine, TapOptions(None))
        receiver = TapReceiver(_NoSocket(), taps.inbox, self.clock, "nowhere")
        self._taps = dataclasses.replace(taps, receiver=receiver)
        self._sources = (EngineSteps(self._taps), TokenGaps(self._taps))
        self.rows = self.rejects = 0
        self.last: list[bytes] = []

    def take(self, some: Iterator[bytes]) -> None:
        """Let datagrams arrive and both sources read them.

        Raises:
            Exception: Whatever went wrong; that is what is looked for.
        """
        self.last = list(some)
        for number, data in enumerate(self.last):
            self._taps.inbox.put(Arrival(data, number % _SENDERS, self.clock.now()))
        self.clock.mono_us += _TICK_US
        for source in self._sources:
            reading = source.read()
            if isinstance(reading, NoData):
                continue
            self.rejects += reading.rejects
            for table, rows in reading.rows.items():
                batch = to_batch(table, rows)
                batch.validate(full=True)
                self.rows += batch.num_rows


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run.

    Attributes:
        count: Datagrams sent.
        rows: Rows that came of them.
        rejects: What was refused.
        growth_mb: Memory that was taken after the first tenth.
        seconds: How long it took.
        crash: What went wrong; empty when nothing did.
    """

    count: int
    rows: int
    rejects: int
    growth_mb: float
    seconds: float
    crash: str = ""

    @property
    def is_fine(self) -> bool:
        """Whether nothing went wrong."""
        return not self.crash and self.growth_mb <= _MOST_GROWTH_MB


def fuzz(count: int, seed: int) -> Outcome:
    """Send so many broken datagrams and return what came of them."""
    victim = Victim()
    some = datagrams(seed, _MONO_US, _WALL_US)
    began, sent, base_mb, crash = time.monotonic(), 0, 0.0, ""
    while sent < count and not crash:
        size = min(_A_POLL, count - sent)
        try:
            victim.take(islice(some, size))
        except Exception as error:  # noqa: BLE001 - any is a find
            crash = f"{type(error).__name__}: {error}, within datagrams {sent} to {sent + size}"
        sent += size
        if not base_mb and sent >= count // 10:
            base_mb = _resident_mb()
    growth = _resident_mb() - base_mb
    seconds = time.monotonic() - began
    return Outcome(sent, victim.rows, victim.rejects, growth, seconds, crash)


def main() -> int:
    """Run and say what came of it."""
    parser = argparse.ArgumentParser(prog="python -m lab.fuzz.tap", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="datagrams")
    parser.add_argument("--seed", type=int, default=1, help="same seed, same datagrams")
    arguments = parser.parse_args()
    outcome = fuzz(arguments.count, arguments.seed)
    sys.stdout.write(
        f"{outcome.count:,} datagrams, seed {arguments.seed}: {outcome.rows:,} rows, "
        f"{outcome.rejects:,} refusals, {outcome.growth_mb:+.1f} MB after the first tenth, "
        f"{outcome.count / outcome.seconds:,.0f} a second\n"
    )
    if outcome.crash:
        sys.stdout.write(f"crash: {outcome.crash}\n")
    return 0 if outcome.is_fine else 1


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * _PAGE_BYTES / KIB / KIB


if __name__ == "__main__":
    sys.exit(main())
