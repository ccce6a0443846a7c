"""Which ways of measuring this user may use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import NvmlError
from collector.edges.nvml_gpm import GpmSamples
from collector.nvml.gpm import GpmCumulative, GpmRate, GpmWindow
from collector.nvml.messages import Method
from lab.hardware.answer import Answer, UnansweredError
from lab.hardware.counters import read_fields
from lab.hardware.subject import Subject

QUESTION = "Which ways of measuring may this user use?"
_PARAMETERS = Path("/proc/driver/nvidia/params")
_ADMIN_ONLY = "RmProfilingAdminOnly"


def examine(subject: Subject) -> Answer:
    """Answer it."""
    outcomes = {method: _try(way, subject.device) for method, way in _WAYS.items()}
    user = "root" if os.geteuid() == 0 else f"user {os.geteuid()}, not root"
    gpm = outcomes[Method.GPM_RATE]
    verdict = f"As {user}, with {read_admin_only(_PARAMETERS)}, GPM: {gpm}."
    rows = [[method.value, outcome] for method, outcome in outcomes.items()]
    return Answer(QUESTION, verdict, ("way", "outcome"), rows)


def read_admin_only(parameters: Path) -> str:
    """Return what the driver's parameter says on who may profile, in words."""
    try:
        lines = parameters.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        return f"{_ADMIN_ONLY} unknown ({error.strerror})"
    found = [line.partition(":")[2].strip() for line in lines if line.startswith(_ADMIN_ONLY)]
    return f"{_ADMIN_ONLY}={found[0]}" if found else f"{_ADMIN_ONLY} not among its parameters"


def _try(way: Callable[[Device], object], device: Device) -> str:
    try:
        way(device)
    except (NvmlError, UnansweredError) as error:
        return str(error)
    return "works"


def _try_gpm(numbers: tuple[int, ...]) -> Callable[[Device], None]:
    def measure(device: Device) -> None:
        window = GpmWindow(GpmSamples(device))
        try:
            window.measure_once(numbers)
        finally:
            window.close()

    return measure


_WAYS: Mapping[Method, Callable[[Device], object]] = {
    Method.GPM_CUMULATIVE: _try_gpm(GpmCumulative.numbers),
    Method.GPM_RATE: _try_gpm(GpmRate.numbers),
    Method.FIELD_COUNTER: read_fields,
    Method.THROUGHPUT: Device.pcie_throughput,
}
