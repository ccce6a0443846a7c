"""One look at a machine: its NUMA nodes, its PCI tree, and where engine processes run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from collector.edges.procfs import read_beginning, read_text
from collector.edges.sysfs import list_names, read_attribute
from collector.nvml.messages import GpuFacts
from collector.pci_tree import PciTree, read_pci_tree
from collector.process_text import parse_cpu_list, parse_status

_NODE = re.compile(r"node(\d+)")
_STATUS_BYTES = 65_536
_CPUINFO_BYTES = 16_384  # the flags of the first CPU stand in the first few thousand
_FLAGS = re.compile(r"^flags\s*:(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class KnownGpu:
    """What the driver says of a GPU.

    Attributes:
        uuid: Its UUID.
        index: Its index in nvidia-smi.
        pids: Engine processes that use it.
    """

    uuid: str
    index: int
    pids: frozenset[int] = frozenset()


class Knowledge(NamedTuple):
    """What others know of the machine: sysfs says nothing of engines and UUIDs.

    Attributes:
        processes: Ids of engine processes and the names of their main threads.
        gpus: GPUs by PCI address; empty when the driver was not asked.
    """

    processes: tuple[tuple[int, str], ...] = ()
    gpus: Mapping[str, KnownGpu] = {}


class NumaNode(NamedTuple):
    """One NUMA node.

    Attributes:
        number: Its number.
        cpus: Its CPUs as a list such as ``0-27,56-83``; None for memory alone, which on NVIDIA
            Grace is the memory of a GPU (bytedance/xpu-perf#129): no socket.
    """

    number: int
    cpus: str | None


class PlacedProcess(NamedTuple):
    """Where one process of an engine runs.

    Attributes:
        pid: Process id.
        name: Name of its main thread.
        cpus: CPUs it may use, as a list; None when unknown.
        memory_nodes: NUMA nodes it may use memory of, as a list; None when unknown.
        gpus: PCI addresses of the GPUs it uses, as far as the driver told.
    """

    pid: int
    name: str
    cpus: str | None
    memory_nodes: str | None
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """What was there.

    Attributes:
        tree: GPUs, NVMe drives, network cards and the bridges above them.
        numa_nodes: Ascending; empty when the kernel shows none.
        processes: Processes of engines, by id.
        gpus: What the driver says of the GPUs, by PCI address.
        virtualised: The machine is a guest, so its tree is what a hypervisor made up; None when
            unknown.
    """

    tree: PciTree
    numa_nodes: tuple[NumaNode, ...] = ()
    processes: tuple[PlacedProcess, ...] = ()
    gpus: Mapping[str, KnownGpu] = field(default_factory=dict)
    virtualised: bool | None = None

    def nodes_of(self, cpus: str | None) -> frozenset[int]:
        """Return the NUMA nodes that a list of CPUs touches; empty when unknown."""
        wanted = parse_cpu_list(cpus or "")
        return frozenset(
            node.number for node in self.numa_nodes if wanted & parse_cpu_list(node.cpus or "")
        )

    def missing(self) -> str:
        """Return what could not be read, in words; empty when all was."""
        parts = []
        if not self.tree.devices:
            parts.append("no PCI devices in /sys")
        if self.tree.unreadable:
            parts.append(f"{self.tree.unreadable} of {self.tree.devices} PCI devices unreadable")
        if self.virtualised is None:
            parts.append("cpuinfo unreadable: a guest is not told from a host")
        return "; ".join(parts)


def combine_knowledge(
    processes: Sequence[tuple[int, str]],
    gpus: Iterable[GpuFacts],
    gpu_processes: Mapping[str, Sequence[int]],
) -> Knowledge:
    """Return what three sources know as one.

    Args:
        processes: Engine processes and the names of their main threads.
        gpus: What the driver says of GPUs; a MIG instance counts as the GPU it is part of.
        gpu_processes: Processes by UUID of the GPU or MIG instance they use.
    """
    engine_pids = {pid for pid, _ in processes}
    facts = [gpu for gpu in gpus if gpu.pci_address is not None]
    pids: dict[str, set[int]] = {}
    for gpu in facts:
        used_by = pids.setdefault(gpu.pci_address or "", set())
        used_by |= engine_pids.intersection(gpu_processes.get(gpu.uuid, ()))
    known = {
        gpu.pci_address: KnownGpu(gpu.uuid, gpu.index, frozenset(pids[gpu.pci_address]))
        for gpu in facts
        if gpu.pci_address is not None and not gpu.parent
    }
    return Knowledge(tuple(sorted(processes)), known)


def read_look(proc: Path, sys: Path, knowledge: Knowledge) -> Look:
    """Look at a machine. What cannot be read is None, and a process that ended is left out.

    Args:
        proc: Root of the proc file system.
        sys: Root of the sys file system.
        knowledge: What others know.
    """
    placed = (_read_placement(proc, pid, name, knowledge) for pid, name in knowledge.processes)
    return Look(
        tree=read_pci_tree(sys),
        numa_nodes=_read_numa_nodes(sys / "devices/system/node"),
        processes=tuple(process for process in placed if process is not None),
        gpus=knowledge.gpus,
        virtualised=read_virtualised(proc),
    )


def parse_virtualised(cpuinfo: str) -> bool:
    """Return whether a hypervisor says in /proc/cpuinfo that it is there.

    The flag is that of CPUID leaf 1, ecx bit 31 (arch/x86/include/asm/cpufeatures.h); processors
    that are no x86 have none.
    """
    flags = _FLAGS.search(cpuinfo)
    return flags is not None and "hypervisor" in flags[1].split()


def read_virtualised(proc: Path) -> bool | None:
    """Return whether this machine is a guest; None when nothing says so."""
    try:
        return parse_virtualised(read_beginning(proc / "cpuinfo", _CPUINFO_BYTES))
    except OSError:
        return None


def _read_numa_nodes(folder: Path) -> tuple[NumaNode, ...]:
    matches = [match for name in list_names(folder) if (match := _NODE.fullmatch(name))]
    nodes = (NumaNode(int(m[1]), read_attribute(folder / m[0] / "cpulist")) for m in matches)
    return tuple(sorted(nodes))


def _read_placement(proc: Path, pid: int, name: str, knowledge: Knowledge) -> PlacedProcess | None:
    """Return where a process may run; None when it ended or may not be looked at."""
    try:
        status = parse_status(read_text(proc / str(pid) / "status", _STATUS_BYTES))
    except OSError:
        return None
    gpus = sorted(address for address, gpu in knowledge.gpus.items() if pid in gpu.pids)
    return PlacedProcess(pid, name, status.cpus_allowed, status.mems_allowed, tuple(gpus))
