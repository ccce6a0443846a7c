"""What is read of the state of a GPU, and by which calls: columns of table gpu_state."""

from __future__ import annotations

from collections.abc import Callable

from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import Code, NvmlError
from collector.edges.nvml_fields import (
    NVLINK_RX_KIB,
    NVLINK_TX_KIB,
    PCIE_ERRORS,
    PCIE_RECOVERIES,
    Field,
)
from collector.edges.nvml_values import clean_percent
from stallscope.units import KIB

_SM, _MEMORY = 1, 2  # nvmlClockType_t
_GPU_SENSOR = 0  # nvmlTemperatureSensors_t
_CORRECTED, _UNCORRECTED = 0, 1  # nvmlMemoryErrorType_t
_SINCE_LOADED = 0  # nvmlEccCounterType_t: the volatile one
_MW_PER_WATT = 1_000
_FIELDS = (PCIE_RECOVERIES, *PCIE_ERRORS, NVLINK_RX_KIB, NVLINK_TX_KIB)

Value = float | NvmlError | None
"""A value, why there is none, or None where NVML marks that it has none."""

Reading = tuple[tuple[str, ...], Callable[[Device], tuple[Value, ...]]]
"""Columns, and what reads them all at once; it raises `NvmlError`."""


def _throttle_reasons(device: Device) -> tuple[Value, ...]:
    """Return the mask of clock event reasons; libraries before 535 know it by an older name."""
    try:
        return (device.big_number("nvmlDeviceGetCurrentClocksEventReasons"),)
    except NvmlError as error:
        if error.code != Code.FUNCTION_NOT_FOUND:
            raise
        return (device.big_number("nvmlDeviceGetCurrentClocksThrottleReasons"),)


def _watts(device: Device, name: str) -> tuple[Value, ...]:
    milliwatts = device.number(name)
    return (None if milliwatts is None else milliwatts / _MW_PER_WATT,)


def _memory(device: Device) -> tuple[Value, ...]:
    memory = device.memory()
    return memory.used, memory.reserved, memory.total


def _utilisation(device: Device) -> tuple[Value, ...]:
    rates = device.ask("nvmlDeviceGetUtilizationRates")
    return clean_percent(rates.gpu), clean_percent(rates.memory)


def _fields(device: Device) -> tuple[Value, ...]:
    """Return recoveries, errors of all classes that are counted, and NVLink bytes."""
    found = device.fields(_FIELDS)

    def value(field: Field, scale: int = 1) -> Value:
        return found[field] * scale if field in found else device.refusal(field)

    errors = [found[field] for field in PCIE_ERRORS if field in found]
    return (
        value(PCIE_RECOVERIES),
        sum(errors) if errors else device.refusal(PCIE_ERRORS[0]),
        value(NVLINK_RX_KIB, KIB),
        value(NVLINK_TX_KIB, KIB),
    )


def _ecc(kind: int) -> Callable[[Device], tuple[Value, ...]]:
    return lambda gpu: (gpu.big_number("nvmlDeviceGetTotalEccErrors", kind, _SINCE_LOADED),)


MEMORY: Reading = (
    ("memory_used_bytes", "memory_reserved_bytes", "memory_total_bytes"),
    _memory,
)

GAUGES: tuple[Reading, ...] = (
    (("sm_clock_mhz",), lambda gpu: (gpu.number("nvmlDeviceGetClockInfo", _SM),)),
    (("sm_clock_max_mhz",), lambda gpu: (gpu.number("nvmlDeviceGetMaxClockInfo", _SM),)),
    (("memory_clock_mhz",), lambda gpu: (gpu.number("nvmlDeviceGetClockInfo", _MEMORY),)),
    (("throttle_reasons",), _throttle_reasons),
    (("power_watts",), lambda gpu: _watts(gpu, "nvmlDeviceGetPowerUsage")),
    (("power_limit_watts",), lambda gpu: _watts(gpu, "nvmlDeviceGetEnforcedPowerLimit")),
    (
        ("temperature_celsius",),
        lambda gpu: (gpu.number("nvmlDeviceGetTemperature", _GPU_SENSOR),),
    ),
    MEMORY,
    (("utilisation_ratio", "memory_utilisation_ratio"), _utilisation),
)
"""Values of the moment."""

COUNTERS: tuple[Reading, ...] = (
    (("replays",), lambda gpu: (gpu.number("nvmlDeviceGetPcieReplayCounter"),)),
    (("ecc_corrected",), _ecc(_CORRECTED)),
    (("ecc_uncorrected",), _ecc(_UNCORRECTED)),
    (("link_recoveries", "pcie_errors", "nvlink_rx_bytes", "nvlink_tx_bytes"), _fields),
)
"""Counts since the driver was loaded, of which the growth is told."""
