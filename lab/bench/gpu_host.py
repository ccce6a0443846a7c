"""Eight GPUs that are not there: our own library in place of the driver's, moving bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lab.nvml.build import BuildError, build_library
from lab.nvml.driver import FakeDriver

GPUS = 8
METHODS = ("gpm_cumulative", "gpm_rate", "field_counter", "throughput")
_GB = 10**9


@contextmanager
def gpu_host(folder: Path, methods: tuple[str, ...] = METHODS) -> Iterator[Mapping[str, str]]:
    """Yield the environment in which a process finds the GPUs.

    Args:
        folder: For the library and its control file.
        methods: Ways of measuring that the driver knows.

    Raises:
        BuildError: The library cannot be compiled here.
    """
    library = build_library(folder / "nvml")
    with FakeDriver(library.parent, folder / "nvml.control", gpus=GPUS) as driver:
        # A call into the driver is CPU time of the caller, but a watched window is slept through.
        driver.delays_burn_cpu = int("throughput" not in methods[:1])
        for index, gpu in enumerate(driver.gpus):
            for method in METHODS:
                setattr(gpu, f"supports_{method}", int(method in methods))
            gpu.set_rates(30 * _GB + index * _GB, 11 * _GB + index * _GB)
            gpu.utilisation_percent = 90
        yield driver.environment


def why_no_gpus() -> str:
    """Return why GPUs cannot be made up here, or an empty string."""
    with tempfile.TemporaryDirectory(prefix="stallscope-bench-") as folder:
        try:
            build_library(Path(folder))
        except BuildError as error:
            return str(error).partition("\n")[0]
    return ""
