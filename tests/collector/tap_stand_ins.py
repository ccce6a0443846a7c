"""A collector's side of the taps without a socket: datagrams are put where it would put them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from collector.edges.tap_socket import Datagram
from collector.engine_steps import EngineSteps
from collector.known_engine import KnownEngine
from collector.source import NoData, Reading
from collector.tap_engines import TapEngines
from collector.tap_hub import TapOptions, Taps, build_taps
from collector.tap_inbox import Arrival
from collector.tap_receiver import TapReceiver
from collector.tap_requests import TapRequests
from collector.token_gaps import TokenGaps
from lab.synthetic.tap_datagrams import Column, TapSender
from stallscope.clock import Instant
from tests.collector.fake_machine import FakeMachine
from tests.collector.stand_ins import SECOND

PID = 4711
Rows: TypeAlias = Mapping[str, list[Mapping[str, Any]]]


class SilentSocket:
    """A socket to which nobody sends."""

    note = ""

    def bind(self) -> None:
        pass

    def check(self) -> None:
        pass

    def receive(self) -> Datagram | None:
        return None

    def is_in_place(self) -> bool:
        return True

    def shut(self) -> None:
        pass

    def close(self) -> None:
        pass


class TapHost:
    """A host with taps and both sources that read them; its clock moves when told."""

    def __init__(self, root: Path, *, store_request_ids: bool = False) -> None:
        self.fake = FakeMachine(root)
        self.clock = self.fake.clock
        self.engines: list[KnownEngine] = [known_engine(11)]
        self.noted: dict[str, int] = {}
        machine = self.fake.machine
        options = TapOptions(None, store_request_ids=store_request_ids)
        taps = build_taps(machine, options, lambda: self.engines, self.noted.__setitem__)
        self.taps: Taps = dataclasses.replace(
            taps, receiver=TapReceiver(SilentSocket(), taps.inbox, machine.clock, "/run/tap.sock")
        )
        self.steps = EngineSteps(self.taps)
        self.gaps = TokenGaps(self.taps)

    @property
    def engine_ids(self) -> TapEngines:
        return self.taps.engines

    @property
    def request_ids(self) -> TapRequests:
        return self.taps.requests

    def at(self) -> Instant:
        return self.clock.now()

    def deliver(self, data: bytes, pid: int = PID) -> None:
        """Let a datagram arrive now."""
        self.taps.inbox.put(Arrival(data, pid, self.clock.now()))

    def poll(self, source: EngineSteps | TokenGaps) -> Rows:
        """Return the rows of one reading that must have worked."""
        return rows_by_table(self.read(source))

    def read(self, source: EngineSteps | TokenGaps) -> Reading:
        """Return one reading, which must have worked."""
        reading = source.read()
        assert isinstance(reading, Reading), reading
        return reading

    def silence(self, source: EngineSteps | TokenGaps) -> NoData:
        """Return why there is no reading."""
        answer = source.read()
        assert isinstance(answer, NoData), answer
        return answer

    def send_step(self, sender: TapSender, pid: int = PID, **values: float) -> None:
        """Deliver one step of now; what is not named has a plain value or lacks."""
        now = self.at()
        codes = {"engine": "B", "main": "B", "engine_mono_us": "q", "kv_usage_ratio": "f"}
        codes |= {"load_bytes": "q", "store_bytes": "q"}
        plain = {"engine": 0, "main": 1, "engine_mono_us": now.mono_us, "outputs": 4}
        named = {**plain, "itl_us": 9_000, **values}
        columns = {name: (codes.get(name, "I"), [value]) for name, value in named.items()}
        self.deliver(sender.steps(columns, now.wall_us, now.mono_us), pid)

    def send_gaps(
        self, sender: TapSender, numbers: Sequence[int], pid: int = PID, *, index: int = 0
    ) -> None:
        """Deliver a chunk of now for each request; a gap is 1 ms times number plus 1."""
        now = self.at()
        count = len(numbers)
        columns: Mapping[str, Column] = {
            "request": ("I", list(numbers)),
            "chunk_index": ("I", [index] * count),
            "mono_us": ("q", [now.mono_us] * count),
            "itl_us": ("I", [1_000 * (number + 1) for number in numbers]),
            "tokens": ("B", [1] * count),
            "body_bytes": ("I", [200] * count),
        }
        self.deliver(sender.gaps(columns, now.wall_us, now.mono_us), pid)

    def send_requests(
        self, sender: TapSender, *requests: Mapping[str, object], pid: int = PID
    ) -> None:
        """Deliver what is told of requests."""
        now = self.at()
        self.deliver(sender.requests(requests, now.wall_us, now.mono_us), pid)

    def refresh(self) -> None:
        """Let the pages of all engines be read now."""
        seen = self.clock.mono_us
        self.engines[:] = [dataclasses.replace(one, seen_mono_us=seen) for one in self.engines]


def known_engine(
    engine: int, *, port: int = 8000, rank: str = "0", model: str = "tiny", host: str = "127.0.0.1"
) -> KnownEngine:
    """Return an engine whose page was read, and will have been read at any time of a test."""
    endpoint = f"http://{host}:{port}/metrics"
    return KnownEngine(engine, f"vllm:{port}", endpoint, host, port, rank, model, 10**9 * SECOND)


def rows_by_table(reading: Reading) -> Rows:
    """Return the rows of a reading as mappings."""
    return {
        table: list(rows.to_pylist()) if isinstance(rows, pa.RecordBatch) else list(rows)
        for table, rows in reading.rows.items()
    }
