"""Typed questions to one GPU. What it said it does not have is not asked again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collector.edges.nvml import Gate, Meter
from collector.edges.nvml_errors import Code, NvmlError, decides, is_lasting
from collector.edges.nvml_fields import Field, FieldBuffer
from collector.edges.nvml_values import clean_u32, clean_u64

_TX, _RX = 0, 1  # nvmlPcieUtilCounter_t
_KB_BYTES = 1024
"""What NVML's "KB/s" are. Unsettled: netdata, Zabbix and nvitop take 1024, nvidia_gpu_exporter
1000, and the whole MB of drivers up to 536 favour 1000. Nothing may rely on better than 2.4 %."""

_MEMORY_V2 = 0x0200_0028  # version word of nvmlMemory_v2_t


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a GPU, in bytes.

    Attributes:
        total: All of it.
        used: In use; without what the driver reserves where NVML tells them apart.
        reserved: What the driver reserves; None where it is counted as used.
    """

    total: int | None
    used: int | None
    reserved: int | None


class Device:
    """One GPU or MIG instance.

    Args:
        gate: Calls NVML.
        handle: NVML's name for it.
        meter: Where the time of its calls is counted.
    """

    def __init__(self, gate: Gate, handle: object, meter: Meter) -> None:
        self.gate = gate
        self.handle = handle
        self.meter = meter
        self._refused: dict[object, NvmlError] = {}
        self._buffers: dict[tuple[Field, ...], FieldBuffer] = {}

    def ask(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - as NVML returns it
        """Return what a function says about this device.

        Raises:
            NvmlError: It failed, or failed for good earlier and is not asked again: a feature that
                is not there can cost 1.2 ms each time.
        """
        key = (name, arguments)
        known = self._refused.get(key)
        if known is not None:
            raise NvmlError(known.code, known.call, known.text)
        try:
            return self.gate.call(self.meter, name, self.handle, *arguments)
        except NvmlError as error:
            if is_lasting(error.code):
                self._refused[key] = error
            raise

    def number(self, name: str, *arguments: object) -> int | None:
        """Return an unsigned int; None where NVML marks that it has none.

        Raises:
            NvmlError: The call failed.
        """
        return clean_u32(int(self.ask(name, *arguments)))

    def big_number(self, name: str, *arguments: object) -> int | None:
        """Return an unsigned long long; None where NVML marks that it has none.

        Raises:
            NvmlError: The call failed.
        """
        return clean_u64(int(self.ask(name, *arguments)))

    def optional(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - as NVML returns it
        """Return what a function says; None where it fails for itself alone.

        Raises:
            NvmlError: The failure concerns the whole GPU or the library, or is a fault of ours.
        """
        try:
            return self.ask(name, *arguments)
        except NvmlError as error:
            if decides(error.code):
                raise
            return None

    def optional_number(self, name: str, *arguments: object) -> int | None:
        """Return an unsigned int; None where there is none, for whatever reason of its own.

        Raises:
            NvmlError: As of `optional`.
        """
        value = self.optional(name, *arguments)
        return None if value is None else clean_u32(int(value))

    def memory(self) -> Memory:
        """Return memory use, by the newer struct where the library knows it.

        Raises:
            NvmlError: The call failed, or the library does not take our struct.
        """
        try:
            new = self.ask("nvmlDeviceGetMemoryInfo", _MEMORY_V2)
        except NvmlError as error:
            if error.code not in {Code.FUNCTION_NOT_FOUND, Code.NOT_SUPPORTED}:
                raise
            old = self.ask("nvmlDeviceGetMemoryInfo")
            return Memory(clean_u64(old.total), clean_u64(old.used), None)
        return Memory(clean_u64(new.total), clean_u64(new.used), clean_u64(new.reserved))

    def process_ids(self) -> tuple[int, ...]:
        """Return the processes that hold a compute context.

        Raises:
            NvmlError: The call failed.
        """
        processes = self.ask("nvmlDeviceGetComputeRunningProcesses_v3")
        return tuple(int(each.pid) for each in processes)

    def pcie_throughput(self) -> tuple[float | None, float | None]:
        """Return bytes/s to and from the GPU; blocks for 20 ms each, one after the other.

        Raises:
            NvmlError: A call failed.
        """
        rx = self.number("nvmlDeviceGetPcieThroughput", _RX)
        tx = self.number("nvmlDeviceGetPcieThroughput", _TX)
        return (
            None if rx is None else float(rx * _KB_BYTES),
            None if tx is None else float(tx * _KB_BYTES),
        )

    def fields(self, wanted: tuple[Field, ...]) -> dict[Field, int]:
        """Return whole numbers of fields, without those that are missing.

        Args:
            wanted: Fields; a field that failed for good is not asked for again.

        Raises:
            NvmlError: The call failed, though not for good, or a field failed with an error that
                concerns the whole GPU.
        """
        buffer = self._buffers.get(wanted)
        if buffer is None:
            open_fields = tuple(field for field in wanted if field not in self._refused)
            buffer = FieldBuffer(self.gate, self.handle, self.meter, open_fields)
            self._buffers[wanted] = buffer
        try:
            found = buffer.read()
        except NvmlError as error:
            if not is_lasting(error.code):
                raise
            found = {}
            buffer.failures = dict.fromkeys(wanted, error.code)
        if buffer.failures:
            self._note_failures(buffer.failures)
            del self._buffers[wanted]
        return found

    def refusal(self, field: Field) -> NvmlError | None:
        """Return why a field is not asked for any more."""
        return self._refused.get(field)

    def _note_failures(self, failures: Mapping[Field, int]) -> None:
        for field, code in failures.items():
            name = f"field {field.number}"
            if code == Code.INVALID_ARGUMENT:
                self._refused[field] = NvmlError(
                    Code.FUNCTION_NOT_FOUND, name, "not known to this driver"
                )
            elif is_lasting(code):
                self._refused[field] = NvmlError(code, name, "refused")
            elif code in {Code.GPU_IS_LOST, Code.UNINITIALIZED}:
                raise NvmlError(code, name, "refused")
