"""One GPU with its MIG instances: opened, read, lost, opened again."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from collector.edges.nvml import Library, Meter
from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import (
    Code,
    NvmlError,
    ends_library,
    is_our_fault,
    state_for,
)
from collector.nvml.blank_samples import blank_links, blank_states
from collector.nvml.facts import Host, find_instances, is_divided, read_facts
from collector.nvml.link_reader import LinkReader
from collector.nvml.messages import GpuFacts, GpuState, LinkSample, StateSample
from collector.nvml.stamping import now
from collector.nvml.state_reader import StateReader
from stallscope.units import US_PER_SECOND

_FIRST_PAUSE_US = US_PER_SECOND
_LONGEST_PAUSE_US = 60 * US_PER_SECOND

Sample = TypeVar("Sample", LinkSample, StateSample)
Blank = Callable[[Sequence[GpuFacts], GpuState, str], tuple[Sample, ...]]


@dataclass(frozen=True, slots=True)
class Report(Generic[Sample]):
    """What reading one GPU came to.

    Attributes:
        samples: Of the GPU and its instances.
        error: Why it cannot be read; None when it can.
    """

    samples: tuple[Sample, ...]
    error: NvmlError | None = None


@dataclass(frozen=True, slots=True)
class _Readers:
    """What reads a GPU while it is open."""

    link: LinkReader
    states: tuple[StateReader, ...]


class Gpu:
    """One GPU of the driver's count; one thread reads it.

    Args:
        library: NVML.
        index: NVML's index.
        host: What is the same for all GPUs.

    Attributes:
        facts: The GPU and its instances, as far as known. Without a UUID until it was opened once.
    """

    def __init__(self, library: Library, index: int, host: Host) -> None:
        self._library = library
        self._index = index
        self._host = host
        self.facts: tuple[GpuFacts, ...] = (GpuFacts(index, "", "", None, host.driver),)
        self._readers: _Readers | None = None
        self._error: NvmlError | None = None
        self._pause_us = _FIRST_PAUSE_US
        self._next_try_us = 0

    def open(self) -> Report[LinkSample]:
        """Find out what it is and how its link can be measured; `facts` says so afterwards."""
        try:
            self._readers = self._open()
        except Exception as problem:  # noqa: BLE001 - no GPU may take the others along
            error = self._close_after(problem)
            state = state_for(error.code)
            self.facts = tuple(
                replace(each, link_state=state, link_reason=str(error)) for each in self.facts
            )
            return Report((), error)
        return Report(())

    def link(self) -> Report[LinkSample]:
        """Return what the link carried since the time before."""
        return self._read(self._read_link, blank_links)

    def state(self) -> Report[StateSample]:
        """Return the state of the GPU and its instances."""
        return self._read(
            lambda readers: tuple(reader.read() for reader in readers.states), blank_states
        )

    def forget(self) -> None:
        """Take the next readings for the first ones: the last came too late to be of use."""
        if self._readers is not None:
            self._readers.link.forget()
            for reader in self._readers.states:
                reader.forget()

    def close(self) -> None:
        """Let go of everything that is held in the library."""
        readers, self._readers = self._readers, None
        if readers is not None:
            readers.link.close()
            for reader in readers.states:
                reader.close()

    def _read(
        self, read: Callable[[_Readers], tuple[Sample, ...]], blank: Blank[Sample]
    ) -> Report[Sample]:
        if self._error is not None and self._readers is None and now().mono_us < self._next_try_us:
            return Report(self._blank_after(self._error, blank), self._error)
        try:
            self._readers = self._readers or self._open()
            samples = read(self._readers)
        except Exception as problem:  # noqa: BLE001 - no GPU may take the others along
            error = self._close_after(problem)
            return Report(self._blank_after(error, blank), error)
        self._pause_us = _FIRST_PAUSE_US
        return Report(samples)

    def _read_link(self, readers: _Readers) -> tuple[LinkSample, ...]:
        _, *instances = self.facts
        blanks = (blank_links((each,), each.link_state, each.link_reason) for each in instances)
        return (readers.link.read(), *(sample for samples in blanks for sample in samples))

    def _open(self) -> _Readers:
        handle = self._library.handle(self._index)
        device = Device(self._library.gate, handle, Meter())
        uuid = str(device.ask("nvmlDeviceGetUUID"))
        if self.facts[0].uuid not in {"", uuid}:
            raise NvmlError(Code.GPU_NOT_FOUND, f"GPU {self._index}", "another GPU is there now")
        # What is known stands here at once: what follows may not come back.
        self.facts = (replace(self.facts[0], uuid=uuid), *self.facts[1:])
        facts = read_facts(device, self.facts[0], self._host)
        divided = is_divided(device)
        instances = tuple(find_instances(device, facts)) if divided else ()
        self.facts = (facts, *(each for _, each in instances))
        link = LinkReader(device, facts)
        link.probe()
        self.facts = (link.describe(), *(each for _, each in instances))
        whole = Device(self._library.gate, handle, Meter())
        states = (
            StateReader(whole, facts, divided=divided),
            *(StateReader(instance, each) for instance, each in instances),
        )
        return _Readers(link, states)

    def _blank_after(self, error: NvmlError, blank: Blank[Sample]) -> tuple[Sample, ...]:
        return blank(self.facts, state_for(error.code), str(error))

    def _close_after(self, problem: Exception) -> NvmlError:
        """Close, unless the GPU is well and the fault ours; returns the problem as NVML's."""
        error = problem if isinstance(problem, NvmlError) else _unforeseen(problem)
        self._error = error
        if is_our_fault(error.code) and self._readers is not None:
            return error
        self.close()
        if ends_library(error.code):
            self._next_try_us = 0  # as soon as it serves again
            return error
        self._next_try_us = now().mono_us + self._pause_us
        self._pause_us = min(2 * self._pause_us, _LONGEST_PAUSE_US)
        return error


def _unforeseen(problem: Exception) -> NvmlError:
    traceback.print_exception(problem)
    return NvmlError(Code.UNFORESEEN, type(problem).__name__, f"{problem}")
