"""Which way of measuring there is on this machine."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from collector.calibration.copy_tool import CopyTool, find_library
from collector.calibration.nvbandwidth import Nvbandwidth
from collector.calibration.rates import MeasureError, Tool
from stallscope.errors import StallscopeError

_WAYS = (
    "Put nvbandwidth on PATH, or name a Python that has PyTorch or CuPy, such as the engine's, "
    "with --python, or install one of the two beside stallscope"
)


def find_tool(
    python: str | None, copy_seconds: float, environment: Mapping[str, str], sys_root: Path
) -> Tool:
    """Return what measures: a named Python, else nvbandwidth, else our own Python.

    Args:
        python: Python that somebody named; None for none.
        copy_seconds: How long to copy on each GPU.
        environment: For the tool; its PATH is searched.
        sys_root: Root of the sys file system.

    Raises:
        StallscopeError: There is none; the hint names the ways to get one.
    """
    program = shutil.which("nvbandwidth", path=environment.get("PATH", ""))
    if program and python is None:
        return Nvbandwidth(program, copy_seconds, environment)
    chosen = python or sys.executable
    try:
        library = find_library(chosen, environment)
    except MeasureError as error:
        raise StallscopeError(str(error), _WAYS) from error
    if library is None:
        where = f"{chosen} has neither PyTorch nor CuPy"
        beside = "" if python else "there is no nvbandwidth on PATH, and "
        raise StallscopeError(f"Nothing here can copy: {beside}{where}", _WAYS)
    return CopyTool(chosen, library, copy_seconds, environment, sys_root)
