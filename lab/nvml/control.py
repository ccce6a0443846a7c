"""The control file of the make-believe driver, field by field as in ``c/control.h``.

A test compares each offset and size with what the compiled library says of itself.
"""

from __future__ import annotations

from ctypes import Structure, c_char, c_int32, c_uint32, c_uint64
from enum import IntEnum

MAGIC = 0x4E564D4C
MAX_GPUS = 16
MAX_INSTANCES = 7
MAX_PIDS = 16
PCIE_ERROR_CLASSES = 11


class Group(IntEnum):
    """Calls that can be made to fail together; index of ``error_codes`` and ``group_calls``."""

    HANDLE = 0
    IDENTITY = 1
    LINK = 2
    THROUGHPUT = 3
    REPLAY = 4
    FIELDS = 5
    GPM = 6
    CLOCKS = 7
    POWER = 8
    TEMPERATURE = 9
    MEMORY = 10
    UTILISATION = 11
    PROCESSES = 12
    ECC = 13
    MIG = 14
    VIRTUALISATION = 15
    C2C = 16


class Leg(Structure):
    """Bytes since a moment: at a constant rate, or during a part of every period."""

    base_bytes: int
    bytes_per_second: int
    since_ns: int
    on_ns: int
    period_ns: int

    _fields_ = (
        ("base_bytes", c_uint64),
        ("bytes_per_second", c_uint64),
        ("since_ns", c_uint64),
        ("on_ns", c_uint64),
        ("period_ns", c_uint64),
    )


class FlowName(IntEnum):
    """Directions of a GPU's links; from the GPU's point of view, as NVML speaks of them."""

    RX = 0
    TX = 1
    C2C_RX = 2
    C2C_TX = 3
    NVLINK_RX = 4
    NVLINK_TX = 5


class TrafficControl(Structure):
    """Two sets of legs; half of ``turn``, modulo 2, holds. ``turn`` is odd during a change."""

    turn: int

    _fields_ = (("turn", c_uint64), ("sets", (Leg * len(FlowName)) * 2))


class GpuControl(Structure):
    """One GPU."""

    _fields_ = (
        ("traffic", TrafficControl),
        ("calls", c_uint64),
        ("group_calls", c_uint64 * len(Group)),
        ("memory_total_bytes", c_uint64),
        ("memory_used_bytes", c_uint64),
        ("memory_reserved_bytes", c_uint64),
        ("throttle_reasons", c_uint64),
        ("ecc_corrected", c_uint64),
        ("ecc_uncorrected", c_uint64),
        ("process_bytes", c_uint64 * MAX_PIDS),
        ("error_codes", c_int32 * len(Group)),
        ("process_ids", c_int32 * MAX_PIDS),
        ("pcie_errors", c_int32 * PCIE_ERROR_CLASSES),
        ("processes", c_int32),
        ("generation", c_int32),
        ("idle_generation", c_int32),
        ("width", c_int32),
        ("max_generation", c_int32),
        ("max_width", c_int32),
        ("gpu_max_generation", c_int32),
        ("minor_number", c_int32),
        ("architecture", c_int32),
        ("utilisation_percent", c_int32),
        ("memory_utilisation_percent", c_int32),
        ("sm_clock_mhz", c_int32),
        ("max_sm_clock_mhz", c_int32),
        ("memory_clock_mhz", c_int32),
        ("max_memory_clock_mhz", c_int32),
        ("power_mw", c_int32),
        ("power_limit_mw", c_int32),
        ("temperature_celsius", c_int32),
        ("replay_counter", c_int32),
        ("replay_rollovers", c_int32),
        ("link_recoveries", c_int32),
        ("mig_enabled", c_int32),
        ("mig_instances", c_int32),
        ("virtualization_mode", c_int32),
        ("c2c_enabled", c_int32),
        ("c2c_links", c_int32),
        ("supports_gpm_cumulative", c_int32),
        ("supports_gpm_rate", c_int32),
        ("supports_field_counter", c_int32),
        ("supports_throughput", c_int32),
        ("supports_nvlink", c_int32),
        ("field_counter_bits", c_int32),
        ("field_value_type", c_int32),
        ("field_counter_error", c_int32),
        ("gpm_metric_error", c_int32),
        ("broken_gpm_zero", c_int32),
        ("broken_gpm_frozen", c_int32),
        ("broken_field_zero", c_int32),
        ("broken_field_frozen", c_int32),
        ("blank_sentinel", c_int32),
        ("throughput_block_us", c_int32),
        ("field_pair_cost_us", c_int32),
        ("unsupported_field_cost_us", c_int32),
        ("gpm_sample_cost_us", c_int32),
        ("lost", c_int32),
        ("lost_after_calls", c_int32),
        ("abort_after_calls", c_int32),
        ("segfault_after_calls", c_int32),
        ("hang", c_int32),
        ("uuid", c_char * 96),
        ("name", c_char * 96),
        ("bus_id", c_char * 32),
    )


class DriverControl(Structure):
    """The whole file."""

    _fields_ = (
        ("magic", c_uint32),
        ("layout_bytes", c_uint32),
        ("calls", c_uint64),
        ("inits", c_uint64),
        ("shutdowns", c_uint64),
        ("gpu_count", c_int32),
        ("init_result", c_int32),
        ("init_hang", c_int32),
        ("init_delay_us", c_int32),
        ("count_error", c_int32),
        ("all_calls_result", c_int32),
        ("abort_after_calls", c_int32),
        ("segfault_after_calls", c_int32),
        ("call_delay_us", c_int32),
        ("delays_burn_cpu", c_int32),
        ("throughput_serialised", c_int32),
        ("throughput_unit_bytes", c_int32),
        ("gpm_metric_end", c_int32),
        ("cuda_version", c_int32),
        ("driver_version", c_char * 80),
        ("nvml_version", c_char * 80),
        ("gpus", GpuControl * MAX_GPUS),
    )
