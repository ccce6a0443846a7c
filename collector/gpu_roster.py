"""The GPUs of this machine: those the driver lists now, and those it listed before.

A GPU that fell off the bus is no longer listed, or is listed without a name. It keeps its row, so
that its absence is seen (NVIDIA/dcgm-exporter#164, #604: series that vanish and nobody notices).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from collector.disk_facts import read_numa_node
from collector.nvml.messages import GpuFacts, GpuState, Greeting
from collector.source import Machine, Row

_GONE = "the driver lists it no longer"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU or MIG instance.

    Attributes:
        facts: What the driver says about it.
        device: Its device id.
        is_named: The driver told its UUID, now or earlier in this run.
    """

    facts: GpuFacts
    device: int
    is_named: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether it is a GPU and no instance of one."""
        return not self.facts.parent

    def explain_silence(self) -> tuple[GpuState, str]:
        """Return state and reason for a GPU without a sample: it has no name, or is listed no more.

        Opening it failed then, before anything was known about its link.
        """
        if self.facts.link_state is GpuState.OK:
            return GpuState.GPU_LOST, "the driver gave no answer for it"
        return self.facts.link_state, self.facts.link_reason


class GpuRoster:
    """Every GPU of this run.

    Args:
        machine: What may be touched.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._greeting: Greeting | None = None
        self._gpus: dict[str, Gpu] = {}
        self._expected = 0

    def update(self, greeting: Greeting) -> bool:
        """Take in what the driver lists; returns whether a child said it that is new.

        Raises:
            SourceError: The device ids of this lake are used up.
        """
        if greeting is self._greeting:
            return False
        self._greeting = greeting
        gpus: dict[str, Gpu] = {}
        told = {facts.uuid for facts in greeting.gpus}
        for facts in greeting.gpus:
            named = self._recognise(facts, told)
            device = self._machine.names.device(self._describe(named))
            gpus[named.uuid] = Gpu(named, device, is_named=named.uuid != _makeshift(facts))
        for uuid, gpu in self._gpus.items():
            if uuid not in gpus and gpu.is_whole and gpu.is_named:
                gone = replace(gpu.facts, link_state=GpuState.GPU_LOST, link_reason=_GONE)
                gpus[uuid] = Gpu(gone, gpu.device)
        self._gpus = gpus  # at once: other threads look at it
        self._expected = max(self._expected, greeting.expected_gpus)
        return True

    def gpus(self) -> tuple[Gpu, ...]:
        """Return all of them, those that are lost among them. Safe from any thread."""
        return tuple(self._gpus.values())

    def count_seen(self, lost: Collection[str]) -> str:
        """Return "n of m GPUs" with the names of those that are lost; empty when all are there.

        Args:
            lost: UUIDs of GPUs that did not answer.
        """
        whole = [gpu.facts.uuid for gpu in self._gpus.values() if gpu.is_whole]
        seen = sum(uuid not in lost for uuid in whole)
        if seen >= self._expected:
            return ""
        names = ", ".join(sorted(uuid for uuid in whole if uuid in lost))
        return f"{seen} of {self._expected} GPUs" + (f", lost: {names}" if names else "")

    def _recognise(self, facts: GpuFacts, told: Collection[str]) -> GpuFacts:
        """Return facts under the name that a GPU had before it stopped to tell it.

        Args:
            facts: What the driver says about it.
            told: The names that the driver tells: it is none of these.
        """
        if facts.uuid:
            return facts
        missing = [
            gpu.facts
            for gpu in self._gpus.values()
            if gpu.is_whole and gpu.is_named and gpu.facts.uuid not in told
        ]
        here = [known for known in missing if _is_at(facts, known)]
        for known in here or (missing if len(missing) == 1 else ()):
            return replace(known, link_state=facts.link_state, link_reason=facts.link_reason)
        return replace(facts, uuid=_makeshift(facts))

    def _describe(self, facts: GpuFacts) -> Row:
        """Return the columns of table device."""
        return {
            "kind": "gpu",
            "name": facts.uuid,
            "role": "mig" if facts.parent else "gpu",
            "model": facts.model or None,
            "pci_address": facts.pci_address,
            "numa_node": self._find_numa_node(facts.pci_address),
            "gpu_index": facts.index,
            "driver": facts.driver or None,
        }

    def _find_numa_node(self, address: str | None) -> int | None:
        if address is None:
            return None
        folder = self._machine.sys / "bus/pci/devices" / address
        return read_numa_node(self._machine.sys, address, folder)


def group_reasons(told: Iterable[tuple[str, str]]) -> str:
    """Return what is wrong with GPUs in words, one reason that several share told once.

    Args:
        told: UUIDs and reasons.
    """
    uuids: dict[str, list[str]] = {}
    for uuid, reason in told:
        uuids.setdefault(reason, []).append(uuid)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in uuids.items())


def _is_at(facts: GpuFacts, known: GpuFacts) -> bool:
    """Return whether a GPU without a name may be where a known one was; an index may shift."""
    return facts.index == known.index and facts.pci_address in {None, known.pci_address}


def _makeshift(facts: GpuFacts) -> str:
    """Return a name for a GPU that never told its own."""
    return facts.pci_address or f"GPU at index {facts.index}"
