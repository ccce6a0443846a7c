"""The make-believe driver: its control file, its GPUs and the environment of its users."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from ctypes import sizeof
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.nvml.control import MAGIC, MAX_GPUS, DriverControl
from lab.nvml.gpu import FakeGpu
from lab.nvml.live_field import LiveInt, LiveText

CONTROL_VARIABLE = "STALLSCOPE_FAKE_NVML"

# An H100 in a gen 5 slot with a driver that knows all four ways of measuring. Throughput watches
# the link for 20 ms (NVML's documentation); a pair of byte counters was seen to cost 0.2 to 0.4 ms.
_H100: Mapping[str, int | str] = {
    "name": "NVIDIA H100 80GB HBM3",
    "architecture": 9,
    "generation": 5,
    "max_generation": 5,
    "gpu_max_generation": 5,
    "width": 16,
    "max_width": 16,
    "memory_total_bytes": 80 << 30,
    "memory_used_bytes": 30 << 30,
    "memory_reserved_bytes": 1 << 30,
    "sm_clock_mhz": 1755,
    "max_sm_clock_mhz": 1980,
    "memory_clock_mhz": 2619,
    "max_memory_clock_mhz": 2619,
    "power_mw": 310_000,
    "power_limit_mw": 700_000,
    "temperature_celsius": 47,
    "supports_gpm_cumulative": 1,
    "supports_gpm_rate": 1,
    "supports_field_counter": 1,
    "supports_throughput": 1,
    "field_counter_bits": 32,
    "field_value_type": 1,
    "throughput_block_us": 20_000,
    "field_pair_cost_us": 300,
    "unsupported_field_cost_us": 1_200,
    "gpm_sample_cost_us": 100,
}


class FakeDriver:
    """A machine with GPUs, for programs that are started with `environment`.

    Whatever is set holds from the library's next call on, in every process that uses it. The
    library counts calls in the same file.

    Attributes:
        gpus: The GPUs by index.
        init_result: Return code of initialisation.
        init_hang: Initialisation does not return while this is not 0.
        count_error: Return code of asking how many GPUs there are.
        all_calls_result: Return code of all calls but shutdown: 999 when the container lost its
            device, 18 when the driver was replaced.
        abort_after_calls: The n-th call from now aborts the process, once; 0 is never.
        segfault_after_calls: The same with a segmentation fault.
        call_delay_us: Added to every call.
        delays_burn_cpu: Costs are CPU time in place of waiting.
        throughput_serialised: Throughput calls of one process wait for each other.
        throughput_unit_bytes: What the library takes for the KB of throughput: 1024 or 1000.
        gpm_metric_end: First GPM metric that the driver does not know; 210 in 12.9.
        calls: Calls so far; ``inits`` and ``shutdowns`` are counted as well.
    """

    driver_version = LiveText()
    nvml_version = LiveText()
    cuda_version = LiveInt()
    gpu_count = LiveInt()
    init_result = LiveInt()
    init_hang = LiveInt()
    init_delay_us = LiveInt()
    count_error = LiveInt()
    all_calls_result = LiveInt()
    abort_after_calls = LiveInt()
    segfault_after_calls = LiveInt()
    call_delay_us = LiveInt()
    delays_burn_cpu = LiveInt()
    throughput_serialised = LiveInt()
    throughput_unit_bytes = LiveInt()
    gpm_metric_end = LiveInt()
    calls = LiveInt()
    inits = LiveInt()
    shutdowns = LiveInt()

    def __init__(self, library_folder: Path, control_file: Path, gpus: int = 1) -> None:
        if not 0 <= gpus <= MAX_GPUS:
            raise ValueError(f"gpus is {gpus}: at most {MAX_GPUS}, at least 0")
        self.library_folder = library_folder
        self.control_file = control_file
        self._mapped = _map_new_file(control_file)
        self.control = DriverControl.from_buffer(self._mapped)
        self._describe(gpus)
        self.gpus = tuple(self._make_gpu(index) for index in range(gpus))

    def __enter__(self) -> Self:
        """Return the driver."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let calls that hang go on, so that no process is left behind."""
        self.init_hang = 0
        for gpu in self.gpus:
            gpu.hang = 0

    @property
    def environment(self) -> dict[str, str]:
        """Variables that make a new process use this driver."""
        return {
            "LD_LIBRARY_PATH": str(self.library_folder),
            CONTROL_VARIABLE: str(self.control_file),
        }

    def _describe(self, gpus: int) -> None:
        self.control.layout_bytes = sizeof(DriverControl)
        self.control.magic = MAGIC
        self.gpu_count = gpus
        self.driver_version = "580.95.05"
        self.nvml_version = "13.580.95.05"
        self.cuda_version = 13000
        self.throughput_unit_bytes = 1024
        self.gpm_metric_end = 477

    def _make_gpu(self, index: int) -> FakeGpu:
        gpu = FakeGpu(self.control.gpus[index])
        for name, value in _H100.items():
            setattr(gpu, name, value)
        gpu.uuid = f"GPU-{index:08x}-5ca1-ab1e-0000-{index:012x}"
        gpu.bus_id = f"00000000:{0x1B + 0x0E * index:02X}:00.0"
        gpu.minor_number = index
        return gpu


def _map_new_file(path: Path) -> mmap.mmap:
    size = sizeof(DriverControl)
    path.write_bytes(bytes(size))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), size)
