"""What goes wrong beside the engine: the collector is killed, missing, or its disk is full.

In no case may a request fail or the engine's log tell of an exception, and what comes after the
trouble is complete.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.crash.small_disk import fill, mounted, why_no_mount
from lab.live.client_gaps import compare, read_stamps, wall_offset_us
from lab.live.engine import Engine
from lab.live.load import run_load
from lab.live.sidecar import Sidecar
from lab.live.stage import (
    SETTLE_S,
    Stage,
    check_served,
    check_unharmed,
    load_of,
    named,
    wait_tapped,
    when_quiet,
)
from lab.live.stream import Timings
from lab.report import Check
from stallscope.units import NS_PER_US, US_PER_SECOND

_STREAMS = 16
_LOAD_S = 25.0
_BEFORE_S = 5.0
_TROUBLE_S = 5.0
_FOUND_US = 5 * US_PER_SECOND  # a tap looks for a collector once a second, the disk is tried again
_DISK_MIB = 48


def kill_collector(stage: Stage, engine: Engine) -> list[Check]:
    """Kill the collector with SIGKILL under load, and start it again."""
    sidecar = stage.sidecar("killed", engine)

    def disturb() -> None:
        sidecar.kill()
        sidecar.start()

    sidecar.start()
    wait_tapped(sidecar, engine)
    return named("collector killed", _go_through(sidecar, engine, disturb))


def run_without_socket(stage: Stage, engine: Engine) -> list[Check]:
    """Put load on an engine whose taps find no socket, and start a collector at last."""
    stage.socket.unlink(missing_ok=True)
    sidecar = stage.sidecar("no-socket", engine)

    def disturb() -> None:
        time.sleep(_TROUBLE_S)
        sidecar.start()

    return named("socket missing", _go_through(sidecar, engine, disturb))


def fill_disk(stage: Stage, engine: Engine) -> list[Check]:
    """Fill the disk of the lake under load, and make room again."""
    reason = why_no_mount()
    if reason:
        return [Check("full disk", None, reason)]
    sidecar = stage.sidecar("full-disk", engine)
    disk = sidecar.lake.parent
    with mounted(disk, ["-t", "tmpfs", "-o", f"size={_DISK_MIB}m", "stallscope-lab"]):
        return named("full disk", _fill_and_free(sidecar, engine, disk / "filler"))


def _fill_and_free(sidecar: Sidecar, engine: Engine, filler: Path) -> list[Check]:
    ran: list[bool] = []

    def disturb() -> None:
        fill(filler)
        time.sleep(_TROUBLE_S)
        ran.append(sidecar.is_running())
        filler.unlink()

    sidecar.start()
    wait_tapped(sidecar, engine)
    checks = _go_through(sidecar, engine, disturb)
    lines = sidecar.log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line for line in lines if "No space left" in line]
    return [
        Check("collector keeps running", all(ran), "while its disk was full"),
        Check("collector says so", bool(said), said[0] if said else "nothing in its log"),
        *checks,
    ]


def _go_through(sidecar: Sidecar, engine: Engine, disturb: Callable[[], None]) -> list[Check]:
    """Put load on the engine, disturb it meanwhile, and return what came of it."""
    requests: list[Timings] = []
    load = threading.Thread(
        target=lambda: requests.extend(run_load(load_of(engine, _STREAMS, _LOAD_S)))
    )
    try:
        load.start()
        time.sleep(_BEFORE_S)
        disturb()
        over_us = time.monotonic_ns() // NS_PER_US
        load.join()
        when_quiet(engine)
        time.sleep(SETTLE_S)
        sidecar.stop()
    except BaseException:
        load.join()
        sidecar.kill()
        raise
    return [
        check_served(requests),
        check_unharmed(engine),
        *_check_rows(sidecar.lake, requests, over_us),
    ]


def _check_rows(lake: Path, requests: Sequence[Timings], over_us: int) -> list[Check]:
    """Return whether what began after the trouble is complete; what is missing of the rest."""
    stamps = read_stamps(lake)
    after = [one for one in requests if one.start_us > over_us + _FOUND_US]
    found = compare(stamps, after, wall_offset_us())
    chunks = sum(len(one.chunks_us) for one in requests)
    held = sum(len(stamps.get(one.request_id, ())) for one in requests)
    return [
        Check(
            "requests after it are complete",
            bool(after) and found.incomplete == 0,
            f"{len(after) - found.incomplete} of {len(after)}",
        ),
        Check(
            "chunks of all requests",
            None,
            f"clients {chunks:,}, lake {held:,}",
            judged=False,
        ),
    ]
