"""What each call of NVML costs, at rest and under load; and how long throughput blocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import Code, NvmlError
from collector.edges.nvml_fields import PCIE_ERRORS, PCIE_RX_BYTES, PCIE_TX_BYTES, Field
from collector.edges.nvml_gpm import GpmSamples
from collector.nvml.gpm import GpmRate
from lab.hardware.answer import Answer
from lab.hardware.load import LoadError
from lab.hardware.subject import Subject
from lab.quantity import rank, show_us

QUESTION = "What does each call cost, and how long does throughput block?"
_MOST_CALLS = 200
_GPM_PAUSE_S = 0.11
_TEMPERATURE_GPU, _CLOCK_SM = 0, 1
_CALLS: Mapping[str, tuple[object, ...]] = {
    "nvmlDeviceGetCurrPcieLinkGeneration": (),
    "nvmlDeviceGetCurrPcieLinkWidth": (),
    "nvmlDeviceGetUtilizationRates": (),
    "nvmlDeviceGetClockInfo": (_CLOCK_SM,),
    "nvmlDeviceGetPowerUsage": (),
    "nvmlDeviceGetTemperature": (_TEMPERATURE_GPU,),
    "nvmlDeviceGetCurrentClocksEventReasons": (),
    "nvmlDeviceGetComputeRunningProcesses_v3": (),
    "nvmlDeviceGetPcieReplayCounter": (),
}
Call = Callable[[], object]


def examine(subject: Subject) -> Answer:
    """Answer it; see `lab.hardware.answer.Examine` for errors."""
    calls = _calls_of(subject.device)
    idle = {name: time_calls(call, subject.seconds / 4) for name, call in calls.items()}
    loaded = _under_load(subject, calls)
    rows = [
        [name, *_figures(idle[name]), *_figures(loaded.get(name, subject.no_load))]
        for name in calls
    ]
    head = ("call", "p50 idle", "p99 idle", "p50 under load", "p99 under load")
    blocking = idle["throughput, one direction"]
    verdict = (
        f"Throughput was refused: {blocking}."
        if isinstance(blocking, str)
        else f"Throughput of one direction blocks {show_us(rank(blocking, 0.5))} (median), "
        f"{show_us(max(blocking))} at most of {len(blocking)} calls."
    )
    return Answer(QUESTION, verdict, head, rows)


def time_calls(call: Call, seconds: float) -> list[float] | str:
    """Return how long calls took in microseconds, or why they fail.

    Args:
        call: What to call.
        seconds: How long to go on, at most; it is called three times in any case.
    """
    times_us: list[float] = []
    deadline_s = time.monotonic() + seconds
    while len(times_us) < 3 or (  # noqa: PLR2004 - for a median
        len(times_us) < _MOST_CALLS and time.monotonic() < deadline_s
    ):
        began_ns = time.perf_counter_ns()
        try:
            call()
        except NvmlError as error:
            return str(error)
        times_us.append((time.perf_counter_ns() - began_ns) / 1000)
    return times_us


def _calls_of(device: Device) -> dict[str, Call]:
    calls: dict[str, Call] = {
        name: _bind(device, name, arguments) for name, arguments in _CALLS.items()
    }
    fields = {"fields 197, 198": (PCIE_TX_BYTES, PCIE_RX_BYTES), "fields 173 to 183": PCIE_ERRORS}
    calls |= {name: _bind_fields(device, wanted) for name, wanted in fields.items()}
    calls["memory"] = device.memory
    calls["throughput, one direction"] = _bind(device, "nvmlDeviceGetPcieThroughput", (1,))
    return calls | _gpm_calls(device)


def _gpm_calls(device: Device) -> dict[str, Call]:
    """Return the calls of GPM; none where there is no GPM."""
    try:
        samples = GpmSamples(device)
        samples.take()
        time.sleep(_GPM_PAUSE_S)
        samples.take()
    except NvmlError:
        return {}
    # Metrics first: samples that follow each other too fast have none.
    return {
        "nvmlGpmMetricsGet, 2 metrics": lambda: samples.metrics(GpmRate.numbers),
        "nvmlGpmSampleGet": samples.take,
    }


def _bind(device: Device, name: str, arguments: tuple[object, ...]) -> Call:
    return lambda: device.ask(name, *arguments)


def _bind_fields(device: Device, wanted: tuple[Field, ...]) -> Call:
    def read() -> None:
        if not device.fields(wanted):  # it does not ask again for what was refused
            raise device.refusal(wanted[0]) or NvmlError(Code.NO_DATA, "fields", "no value")

    return read


def _under_load(subject: Subject, calls: Mapping[str, Call]) -> dict[str, list[float] | str]:
    """Return the times while H2D copies run; empty when there is no load."""
    if subject.load is None:
        return {}
    each_s = subject.seconds / 4
    found = {}
    for name, call in calls.items():
        subject.load.begin("rx", each_s)
        found[name] = time_calls(call, each_s)
        try:
            subject.load.carried()
        except LoadError as error:
            found[name] = str(error)
            break
    return found


def _figures(times: list[float] | str) -> list[str]:
    if isinstance(times, str):
        return [times, "-"]
    return [show_us(rank(times, 0.5)), show_us(rank(times, 0.99))]
