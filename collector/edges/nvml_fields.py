"""Fields of nvmlDeviceGetFieldValues: which there are, and reading several with one call."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from collector.edges.nvml import Gate, Meter
from collector.edges.nvml_values import clean_amount, clean_u32, clean_u64

_ALL_LINKS = 0xFFFF_FFFF  # scopeId for the sum over all NVLinks
_HEAD = struct.Struct("=II")  # nvmlFieldValue_t begins with fieldId and scopeId ...
_TAIL = "24xIIQ"  # ... and ends with valueType, nvmlReturn and value at 24, 28 and 32 of 40
_SIZE = 40


class Field(NamedTuple):
    """One field.

    Attributes:
        number: NVML_FI_DEV_*.
        scope: Which link, where a field has several.
    """

    number: int
    scope: int = 0


PCIE_TX_BYTES = Field(197)
PCIE_RX_BYTES = Field(198)
PCIE_RECOVERIES = Field(169)  # PCIE_L0_TO_RECOVERY_COUNTER
PCIE_ERRORS = tuple(Field(number) for number in range(173, 184))  # one per class of error
C2C_LINKS = Field(170)
C2C_STATUS = Field(171)  # of link 0: 1 is active
NVLINK_TX_KIB = Field(138, _ALL_LINKS)  # data without protocol
NVLINK_RX_KIB = Field(139, _ALL_LINKS)


class FieldBuffer:
    """Some fields of one GPU with the memory to read them into.

    Args:
        gate: Calls NVML.
        handle: The GPU.
        meter: Where the time of the calls is counted.
        fields: The fields.

    Attributes:
        failures: Return codes of the fields that failed in the last reading.
    """

    def __init__(self, gate: Gate, handle: object, meter: Meter, fields: tuple[Field, ...]) -> None:
        self._gate = gate
        self._handle = handle
        self._meter = meter
        self._fields = fields
        self._memory = ctypes.create_string_buffer(_SIZE * len(fields))
        for place, field in enumerate(fields):
            _HEAD.pack_into(self._memory, place * _SIZE, *field)
        self._layout = struct.Struct(f"={_TAIL * len(fields)}")
        self.failures: dict[Field, int] = {}

    def read(self) -> dict[Field, int]:
        """Return whole numbers, without those of fields that failed or have no value.

        The call itself succeeds when a field fails (nvml.h: check nvmlReturn first), and the value
        is in the member that the value type names.

        Raises:
            NvmlError: The call failed.
        """
        if not self._fields:
            return {}
        self._gate.call_prepared(
            self._meter,
            "nvmlDeviceGetFieldValues",
            self._handle,
            len(self._fields),
            self._memory,
        )
        found: dict[Field, int] = {}
        parts = iter(self._layout.unpack_from(self._memory))
        for field, kind, code, bits in zip(self._fields, parts, parts, parts, strict=True):
            if code:
                self.failures[field] = code
                continue
            value = _read_member(kind, bits)
            if value is not None:
                found[field] = value
        return found


def _read_member(kind: int, bits: int) -> int | None:
    """Return the number in the 8 bytes of an nvmlValue_t; None where there is none."""
    member = _MEMBERS.get(kind)
    return None if member is None else member(bits)


def _double(bits: int) -> int | None:
    amount = clean_amount(struct.unpack("=d", struct.pack("=Q", bits))[0])
    return None if amount is None else int(amount)


def _signed(bits: int, width: int) -> int | None:
    """Return a signed number that is not below zero: none of our fields is, for a reason."""
    value = bits & ((1 << width) - 1)
    if value >> (width - 1):
        return None
    return clean_u64(value) if width > 32 else clean_u32(value)  # noqa: PLR2004 - bits


_MEMBERS: Mapping[int, Callable[[int], int | None]] = {  # nvmlValueType_t
    0: _double,
    1: lambda bits: clean_u32(bits & 0xFFFF_FFFF),
    2: clean_u64,  # unsigned long: 64 bits on Linux
    3: clean_u64,
    4: lambda bits: _signed(bits, 64),
    5: lambda bits: _signed(bits, 32),
    6: lambda bits: bits & 0xFFFF,
}
