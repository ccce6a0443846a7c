"""The state of one GPU from poll to poll."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import Code, NvmlError, decides
from collector.nvml.c2c_rates import C2cRates
from collector.nvml.growth import Growth
from collector.nvml.messages import GpuFacts, GpuState, StateSample
from collector.nvml.stamping import now
from collector.nvml.state_readings import COUNTERS, GAUGES, MEMORY, Reading, Value

_C2C_COLUMNS = ("c2c_rx_window_mean_bytes_per_second", "c2c_tx_window_mean_bytes_per_second")
_FIRST = "first sample: counters need two"
_DIVIDED = "MIG divides the GPU: there is no utilisation of the whole"
_INSTANCE = "MIG instance: all but memory and processes belongs to the whole GPU"
_WORDS: Mapping[int, str] = {
    Code.NOT_SUPPORTED: "not supported",
    Code.VGPU_ECC_NOT_SUPPORTED: "not supported",
    Code.INVALID_ARGUMENT: "not in this driver",
    Code.FUNCTION_NOT_FOUND: "not in this driver",
    Code.NO_PERMISSION: "no permission",
}


class Missing:
    """What could not be read, by reason.

    Attributes:
        unknown: An error that says nothing; the GPU's own when nothing at all could be read.
    """

    def __init__(self) -> None:
        self._columns: dict[str, list[str]] = {}
        self.unknown: NvmlError | None = None

    def note(self, column: str, error: NvmlError | None) -> None:
        """Note a column; no error means that NVML marks that it has no value."""
        if error is not None and error.code == Code.UNKNOWN:
            self.unknown = error
        word = "no value" if error is None else _WORDS.get(error.code) or error.text
        self._columns.setdefault(word, []).append(column)

    def describe(self, *more: str) -> str:
        """Return all reasons in words, those of the caller first."""
        told = (f"{word}: {', '.join(columns)}" for word, columns in self._columns.items())
        return "; ".join([*filter(None, more), *told])


class StateReader:
    """Reads the state of a GPU or of a MIG instance.

    Args:
        device: The GPU, as a device of our own: its meter counts these calls alone.
        facts: What is known about it.
        divided: It is divided into MIG instances.
    """

    def __init__(self, device: Device, facts: GpuFacts, *, divided: bool = False) -> None:
        self._device = device
        self._facts = facts
        self._kind = _INSTANCE if facts.parent else _DIVIDED * divided
        self._growth = Growth()
        has_c2c = facts.link_state is GpuState.NOT_APPLICABLE and not facts.parent
        self._c2c = C2cRates(device) if has_c2c else None
        self._last_us: int | None = None

    def read(self) -> StateSample:
        """Return the state now, and what counters gained since the sample before.

        Raises:
            NvmlError: The failure concerns the whole GPU, or is a fault of ours.
        """
        missing = Missing()
        values: dict[str, float] = {}
        if self._facts.parent:
            values.update(self._read_all((MEMORY,), missing))
        else:
            values.update(self._read_whole(missing))
        process_ids = self._read_process_ids(missing)
        if process_ids is not None:
            values["processes"] = len(process_ids)
        if not values and missing.unknown is not None:
            raise missing.unknown
        return self._sample(values, process_ids or (), missing)

    def forget(self) -> None:
        """Take the next reading for the first."""
        self._growth.forget()
        self._last_us = None
        if self._c2c is not None:
            self._c2c.forget()

    def close(self) -> None:
        """Let go of what is held for C2C."""
        if self._c2c is not None:
            self._c2c.close()

    def _read_whole(self, missing: Missing) -> Iterator[tuple[str, float]]:
        yield from self._read_all(GAUGES, missing)
        counters = dict(self._read_all(COUNTERS, missing))
        yield from self._growth.note({name: int(count) for name, count in counters.items()}).items()
        if self._c2c is not None:
            c2c = self._c2c
            yield from self._read_all(((_C2C_COLUMNS, lambda _: c2c.read()),), missing)

    def _read_all(
        self, readings: Sequence[Reading], missing: Missing
    ) -> Iterator[tuple[str, float]]:
        for columns, read in readings:
            for column, value in zip(columns, self._try(columns, read), strict=True):
                if isinstance(value, NvmlError) or value is None:
                    missing.note(column, value)
                else:
                    yield column, value

    def _try(
        self, columns: Sequence[str], read: Callable[[Device], tuple[Value, ...]]
    ) -> tuple[Value, ...]:
        try:
            return read(self._device)
        except NvmlError as error:
            if decides(error.code):
                raise
            return (error,) * len(columns)

    def _read_process_ids(self, missing: Missing) -> tuple[int, ...] | None:
        try:
            return self._device.process_ids()
        except NvmlError as error:
            if decides(error.code):
                raise
            missing.note("processes", error)
            return None

    def _sample(
        self, values: Mapping[str, float], process_ids: tuple[int, ...], missing: Missing
    ) -> StateSample:
        at = now()
        last_us, self._last_us = self._last_us, at.mono_us
        first = _FIRST if last_us is None and not self._facts.parent else ""
        return StateSample(
            uuid=self._facts.uuid,
            state=GpuState.OK,
            reason=missing.describe(self._kind, first),
            wall_us=at.wall_us,
            mono_us=at.mono_us,
            window_us=None if last_us is None else at.mono_us - last_us,
            values=values,
            compute_pids=process_ids,
            call_us=self._device.meter.take(),
        )
