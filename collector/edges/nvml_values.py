"""Telling values that NVML means from the marks it leaves where it has none. Pure.

NVML fills what it does not know with ones; DCGM's "blank" marks were seen in NVML values, too, and
exported as bytes by others (guilbaults/slurm-job-exporter#30).
"""

from __future__ import annotations

import math

from collector.nvml.raw_rate import WIDTHS

_U32_NOT_AVAILABLE = 0xFFFF_FFF0  # NVML_VALUE_NOT_AVAILABLE as unsigned int, and marks below it
_I32_BLANK = 0x7FFF_FFF0  # DCGM_INT32_BLANK, and 15 marks above it
_MARKS = 16
_U64_NOT_AVAILABLE = 0xFFFF_FFFF_FFFF_FFF0  # NVML_VALUE_NOT_AVAILABLE as long, and marks below it
_I64_BLANK = 0x7FFF_FFFF_FFFF_FFF0  # DCGM_INT64_BLANK, and 15 marks above it
_F64_BLANK = 2.0**47  # DCGM_FP64_BLANK, and 15 marks above it
_NO_GENERATION = 16  # the speed of a link has four bits (PCI Express Base Specification)


def clean_u32(value: int) -> int | None:
    """Return a 32-bit value; None where it is a mark for "no value".

    A counter that wraps passes through the marks, too: one reading in 10**8, and the next one has
    it all.
    """
    if value >= _U32_NOT_AVAILABLE or _I32_BLANK <= value < _I32_BLANK + _MARKS:
        return None
    return value


def clean_u64(value: int) -> int | None:
    """Return a 64-bit value; None where it is a mark for "no value"."""
    if value >= _U64_NOT_AVAILABLE or _I64_BLANK <= value < _I64_BLANK + _MARKS:
        return None
    return value


def clean_amount(value: float) -> float | None:
    """Return a floating-point amount; None where it is a mark, no number or below zero."""
    if not math.isfinite(value) or value < 0:
        return None
    if value >= _F64_BLANK and value - _F64_BLANK in range(_MARKS):
        return None
    return None if value >= _I64_BLANK else value


def clean_percent(value: int) -> float | None:
    """Return a percentage as a ratio; None where it is outside of 0 to 100."""
    return value / 100 if 0 <= value <= 100 else None  # noqa: PLR2004 - per cent


def clean_generation(value: int | None) -> int | None:
    """Return a PCIe generation; None where it is none, such as the 0 of a link that is down."""
    return value if value is not None and 0 < value < _NO_GENERATION else None


def clean_width(value: int | None) -> int | None:
    """Return a number of PCIe lanes; None where no link has so many, such as 0 and 255."""
    return value if value in WIDTHS else None
