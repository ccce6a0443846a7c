"""Measuring with the copy script in a Python that has PyTorch or CuPy, such as the engine's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from collector.calibration import copy_link
from collector.calibration.rates import Measured, MeasureError, Rates
from collector.edges.sysfs import read_attribute
from collector.edges.timed_program import Finished, ProgramError, run_beside
from collector.nvml.messages import GpuFacts

SCRIPT = Path(copy_link.__file__)
_START_S = 60.0
"""Loading PyTorch from a cold disk takes tens of seconds."""
_PROBE_S = 30.0


@dataclass(frozen=True, slots=True)
class CopyTool:
    """The copy script.

    Attributes:
        python: Python that runs it.
        library: torch or cupy.
        copy_seconds: How long to copy.
        environment: Its environment.
        sys: Root of the sys file system, for the CPUs near a GPU.
    """

    python: str
    library: str
    copy_seconds: float
    environment: Mapping[str, str]
    sys: Path

    @property
    def label(self) -> str:
        """Return the library and whose it is."""
        return f"{self.library} of {self.python}"

    @property
    def seconds(self) -> float:
        """Return about how long one GPU takes, without the loading of the library."""
        return self.copy_seconds + copy_link.WARM_UP_S

    def measure(self, gpu: GpuFacts, meanwhile: Callable[[], None]) -> Measured:
        """Run the script on one GPU; see `Tool.measure`.

        Raises:
            MeasureError: It failed.
        """
        words = [self.python, str(SCRIPT), "--seconds", f"{self.copy_seconds:g}"]
        words += ["--cpus", self._near_cpus(gpu)]
        environment = {**self.environment, "CUDA_VISIBLE_DEVICES": gpu.uuid}
        try:
            done = run_beside(words, environment, 3 * self.seconds + _START_S, meanwhile)
        except ProgramError as error:
            raise MeasureError(str(error)) from error
        return parse_report(done)

    def _near_cpus(self, gpu: GpuFacts) -> str:
        """Return the CPUs of the GPU's NUMA node; memory that is pinned elsewhere is slower."""
        if gpu.pci_address is None:
            return ""
        device = self.sys / "bus/pci/devices" / gpu.pci_address
        return read_attribute(device / "local_cpulist") or ""


def find_library(python: str, environment: Mapping[str, str]) -> str | None:
    """Return which library a Python has, torch or cupy; None for neither.

    Raises:
        MeasureError: It cannot be run.
    """
    try:
        done = run_beside([python, str(SCRIPT), "--probe"], environment, _PROBE_S, lambda: None)
    except ProgramError as error:
        raise MeasureError(str(error)) from error
    if done.status == copy_link.NO_LIBRARY:
        return None
    try:
        return str(json.loads(done.output)["library"])
    except (ValueError, KeyError, TypeError) as error:
        raise MeasureError(f"{python} did not run the copy script: {_reason(done)}") from error


def parse_report(done: Finished) -> Measured:
    """Return what the script measured.

    Raises:
        MeasureError: It failed, or printed something else.
    """
    if done.status:
        raise MeasureError(f"the copies failed: {_reason(done)}")
    try:
        told = json.loads(done.output.splitlines()[-1])
        names = ("rx", "tx", "rx_together", "tx_together")
        rates = Rates(*(float(told[name]) for name in names))
        tool = f"{told['library']} {told['version']}"
        return Measured(rates, tool, str(told["pci_address"]).lower())
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise MeasureError(f"the copy script printed something else: {error!r}") from error


def _reason(done: Finished) -> str:
    """Return the last line it wrote to stderr: of a traceback, that is the error."""
    said = done.errors.strip().splitlines()
    return said[-1][:200] if said else f"it ended with status {done.status}"
