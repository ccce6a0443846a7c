"""Measuring with NVIDIA's own ``nvbandwidth``: its JSON, or the text of versions before 0.6.

Formats as of its output.cpp and json_output.cpp: a matrix with one row (the host) and one column a
GPU, in GB/s of 10^9 bytes; JSON holds the numbers as text. A bidirectional test reports one
direction alone while the other one is busy (its README, "Bidirectional Host <-> Device").
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from collector.calibration.rates import Measured, MeasureError, Rates
from collector.edges.timed_program import Finished, ProgramError, run_beside
from collector.nvml.messages import GpuFacts

TESTS = {
    "rx": "host_to_device_memcpy_ce",
    "tx": "device_to_host_memcpy_ce",
    "rx_together": "host_to_device_bidirectional_memcpy_ce",
    "tx_together": "device_to_host_bidirectional_memcpy_ce",
}
GB = 1e9
_SAMPLE_BYTES = 16 * (512 << 20)
"""What one sample of one test copies: loopCount 16 of bufferSize 512 MiB, its defaults."""
_TYPICAL_BYTES_PER_SECOND = 25e9
_FEWEST_SAMPLES = 3
_OVERHEAD_S = 8.0
"""CUDA's start, filling and comparing of buffers."""

_RUNNING = re.compile(r"Running (\w+)\.?$")
_VERSION = re.compile(r"nvbandwidth Version: (\S+)")
_DEVICE = re.compile(r"(?:Device )?0: .*\((?P<place>[0-9a-fA-F]{4,8}(?::[0-9a-fA-F]{2}){2})\)")
_REFUSED = ("Invalid Arguments", "nvbandwidth CLI")


@dataclass(frozen=True, slots=True)
class Nvbandwidth:
    """The program.

    Attributes:
        program: Its path.
        copy_seconds: How long to copy, about.
        environment: Its environment.
    """

    program: str
    copy_seconds: float
    environment: Mapping[str, str]

    @property
    def label(self) -> str:
        """Return its path."""
        return self.program

    @property
    def seconds(self) -> float:
        """Return about how long one GPU takes, its start included."""
        return self.copy_seconds + _OVERHEAD_S

    def measure(self, gpu: GpuFacts, meanwhile: Callable[[], None]) -> Measured:
        """Run the four tests on one GPU; see `Tool.measure`.

        Raises:
            MeasureError: It failed, or a test gave no figure.
        """
        done = self._run(["-j", "-i", str(samples_in(self.copy_seconds))], gpu, meanwhile)
        if done.status and any(word in done.output + done.errors for word in _REFUSED):
            done = self._run([], gpu, meanwhile)  # knows neither -j nor -i
        text = done.output
        try:
            return parse_json(text) if text.lstrip().startswith("{") else parse_text(text)
        except MeasureError as error:
            raise MeasureError(f"{error}{_last_words(done)}") from error

    def _run(self, options: list[str], gpu: GpuFacts, meanwhile: Callable[[], None]) -> Finished:
        tests = [word for test in TESTS.values() for word in ("-t", test)]
        # By UUID: CUDA numbers GPUs by speed unless told otherwise, NVML by PCI address.
        environment = {**self.environment, "CUDA_VISIBLE_DEVICES": gpu.uuid}
        try:
            return run_beside(
                [self.program, *options, *tests], environment, 10 * self.seconds + 60, meanwhile
            )
        except ProgramError as error:
            raise MeasureError(str(error)) from error


def samples_in(seconds: float) -> int:
    """Return how many samples of each test take about so many seconds together."""
    per_sample_s = len(TESTS) * _SAMPLE_BYTES / _TYPICAL_BYTES_PER_SECOND
    return max(_FEWEST_SAMPLES, round(seconds / per_sample_s))


def parse_json(text: str) -> Measured:
    """Return what the JSON of a run with one visible GPU says.

    Raises:
        MeasureError: It is no such JSON, or a test gave no figure.
    """
    try:
        told = json.loads(text)["nvbandwidth"]
        cases = {str(case["name"]): case for case in told.get("testcases", ())}
        rows = {name: _first_row(case.get("bandwidth_matrix")) for name, case in cases.items()}
        devices = "\n".join(map(str, told.get("GPU Device list", ())))
        version = str(told.get("version", ""))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MeasureError(f"nvbandwidth printed JSON of another form: {error!r}") from error
    if told.get("error"):
        raise MeasureError(f"nvbandwidth failed: {told['error']}")
    states = {name: str(case.get("status", "")) for name, case in cases.items()}
    return _measured(rows, states, version, devices)


def _first_row(matrix: object) -> Sequence[object]:
    """Return the row of the host; a test without figures has none."""
    row = matrix[0] if isinstance(matrix, list) and matrix else ()
    return row if isinstance(row, list) else ()


def parse_text(text: str) -> Measured:
    """Return what the plain text of a run with one visible GPU says.

    Raises:
        MeasureError: A test gave no figure.
    """
    rows: dict[str, Sequence[str]] = {}
    states: dict[str, str] = {}
    test = ""
    for line in text.splitlines():
        cells = line.split()
        if found := _RUNNING.match(line.strip()):
            test = found[1]
        elif line.lstrip().startswith(("ERROR:", "Error:", "Waived:")):
            states[test] = line.strip()
        elif len(cells) > 1 and cells[0] == "0" and "." in cells[1]:
            rows.setdefault(test, cells[1:])
    version = _VERSION.search(text)
    return _measured(rows, states, version[1] if version else "", text)


def _measured(
    rows: Mapping[str, Sequence[object]], states: Mapping[str, str], version: str, devices: str
) -> Measured:
    found = {key: _figure(rows.get(test, ()), test) for key, test in TESTS.items()}
    missing = [TESTS[key] for key in ("rx", "tx") if found[key] is None]
    if missing:
        state = f" ({states[missing[0]]})" if states.get(missing[0]) else ""
        raise MeasureError(f"nvbandwidth gave no figure for {missing[0]}{state}")
    rates = Rates(found["rx"] or 0, found["tx"] or 0, found["rx_together"], found["tx_together"])
    tool = f"nvbandwidth {version}".strip()
    return Measured(rates, tool, _pci_address(devices))


def _figure(row: Sequence[object], test: str) -> float | None:
    """Return the one figure of a row in bytes per second; None when the test gave none.

    Raises:
        MeasureError: There are several GPUs: which one is meant cannot be told.
    """
    if len(row) > 1:
        raise MeasureError(f"nvbandwidth saw {len(row)} GPUs in {test} though one was made visible")
    try:
        value = float(str(row[0])) * GB if row else math.nan
    except ValueError:  # N/A
        return None
    return None if math.isnan(value) else value


def _pci_address(text: str) -> str:
    """Return the address of device 0 as sysfs spells it; versions before 0.5 do not tell it."""
    for line in text.splitlines():
        if found := _DEVICE.match(line.strip()):
            domain, bus, device = (int(part, 16) for part in found["place"].split(":"))
            return f"{domain:04x}:{bus:02x}:{device:02x}.0"
    return ""


def _last_words(done: Finished) -> str:
    """Return how the program ended, for people."""
    if not done.status:
        return ""
    said = done.errors.strip().splitlines()
    return f"; it ended with status {done.status}" + (f": {said[-1][:200]}" if said else "")
