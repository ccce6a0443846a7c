"""What every scenario needs: engines, load, quiet, and whether the engine came to no harm."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from lab.bench.rival import free_port
from lab.live.engine import MODEL, Engine, EngineOptions
from lab.live.install import Prepared
from lab.live.load import Load, run_load
from lab.live.own_figures import OwnFigures, parse_own_figures
from lab.live.sidecar import Sidecar
from lab.live.stream import Timings
from lab.report import Check
from stallscope.errors import StallscopeError

SETTLE_S = 5.0
"""Longer than two scrapes, two batches of a tap, one journal and one seal."""

_QUIET_S = 60.0


@dataclass(frozen=True, slots=True)
class Stage:
    """Where scenarios play.

    Attributes:
        prepared: The engine's environment.
        folder: For lakes and logs.
        socket: Where taps deliver; a short path, since a socket's has at most 107 bytes.
    """

    prepared: Prepared
    folder: Path
    socket: Path

    @contextmanager
    def engine(self, name: str, options: EngineOptions) -> Iterator[Engine]:
        """Yield a healthy, warm engine whose taps deliver to the stage's socket.

        Args:
            name: For its log.
            options: What is special about it.

        Raises:
            StallscopeError: It does not start.
        """
        environment = {**options.environment, "STALLSCOPE_TAP_SOCKET": str(self.socket)}
        log = self.folder / f"engine-{name}.log"
        with Engine(
            self.prepared, free_port(), log, replace(options, environment=environment)
        ) as engine:
            engine.wait_healthy()
            warm_up(engine)
            yield engine

    def sidecar(self, name: str, engine: Engine) -> Sidecar:
        """Return a collector that has not been started, with a lake of its own."""
        folder = self.folder / name
        return Sidecar(folder, folder / "disk" / "lake", engine.url, self.socket)


def load_of(engine: Engine, streams: int, seconds: float, seed: int = 1) -> Load:
    """Return the usual load on an engine."""
    return Load("127.0.0.1", engine.port, MODEL, streams, seconds, seed)


def warm_up(engine: Engine) -> None:
    """Send a little, so that first-request compilation is not part of the figures."""
    run_load(load_of(engine, streams=4, seconds=2, seed=99))


def wait_tapped(sidecar: Sidecar, engine: Engine) -> None:
    """Send a little until rows of both taps are in the lake: they have found the collector.

    Raises:
        StallscopeError: None came.
    """
    time.sleep(1.5)  # a tap looks for a collector once a second
    warm_up(engine)
    sidecar.wait_rows("engine_metrics", "engine_step", "token_gap")
    when_quiet(engine)
    time.sleep(SETTLE_S)


def when_quiet(engine: Engine) -> OwnFigures:
    """Return the engine's figures once nothing runs and nothing changes any more.

    Raises:
        StallscopeError: It does not get quiet.
    """
    deadline = time.monotonic() + _QUIET_S
    last = OwnFigures(in_flight=1)
    while time.monotonic() < deadline:
        figures = parse_own_figures(engine.read_metrics())
        if figures.in_flight == 0 and figures == last:
            return figures
        last = figures
        time.sleep(1.0)
    raise StallscopeError("the engine does not get quiet: somebody else sends requests too")


def check_served(requests: Sequence[Timings]) -> Check:
    """Return whether no request failed."""
    failed = [request.error for request in requests if request.error]
    detail = f"{len(requests) - len(failed)} served, {len(failed)} failed"
    return Check(
        "requests served",
        bool(requests) and not failed,
        f"{detail}; {failed[0]}" if failed else detail,
    )


def check_unharmed(engine: Engine) -> Check:
    """Return whether the engine is healthy and its log tells of no exception."""
    trouble = engine.find_trouble()
    healthy = engine.is_healthy()
    detail = f"{'healthy' if healthy else 'not healthy'}, {len(trouble)} exceptions in its log"
    return Check(
        "engine unharmed",
        healthy and not trouble,
        f"{detail}; {trouble[0]}" if trouble else detail,
    )


def named(name: str, checks: Sequence[Check]) -> list[Check]:
    """Return the checks with the scenario's name in front of theirs."""
    return [replace(check, name=f"{name}: {check.name}") for check in checks]
