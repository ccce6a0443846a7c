"""A look at the topology as rows of tables topology and topology_finding, without their time."""

from __future__ import annotations

from collections.abc import Iterable

from collector.pci_tree import PciNode
from collector.source import Row
from collector.topology_findings import Finding
from collector.topology_look import Look, NumaNode, PlacedProcess


def describe_look(look: Look) -> list[Row]:
    """Return a row per NUMA node, bus device and process, in this order."""
    rows = [
        *(_describe_numa(node) for node in look.numa_nodes),
        *(_describe_device(node, look) for _, node in sorted(look.tree.nodes.items())),
        *(_describe_process(process, look) for process in look.processes),
    ]
    return [{**row, "virtualised": look.virtualised} for row in rows]


def describe_findings(findings: Iterable[Finding]) -> list[Row]:
    """Return a row per finding."""
    return [finding._asdict() for finding in findings]


def _describe_numa(node: NumaNode) -> Row:
    return {
        "address": _numa_address(node.number),
        "kind": "numa",
        "numa_node": node.number,
        "cpus": node.cpus,
    }


def _describe_device(node: PciNode, look: Look) -> Row:
    gpu = look.gpus.get(node.address)
    return {
        "address": node.address,
        "parent": node.parent or _find_socket(node, look),
        "kind": node.kind.value,
        "numa_node": node.numa_node,
        "link_generation": node.generation,
        "link_width": node.width,
        "max_link_generation": node.max_generation,
        "max_link_width": node.max_width,
        "name": node.name if gpu is None else gpu.uuid,
    }


def _find_socket(node: PciNode, look: Look) -> str | None:
    """Return the address of the NUMA node that a root hangs on."""
    known = {numa.number for numa in look.numa_nodes}
    return _numa_address(node.numa_node) if node.numa_node in known else None


def _describe_process(process: PlacedProcess, look: Look) -> Row:
    nodes = look.nodes_of(process.cpus)
    return {
        "address": f"pid {process.pid}",
        "parent": process.gpus[0] if process.gpus else None,
        "kind": "process",
        "numa_node": min(nodes) if len(nodes) == 1 else None,
        "name": process.name,
        "cpus": process.cpus,
        "memory_nodes": process.memory_nodes,
    }


def _numa_address(number: int | None) -> str:
    return f"node{number}"
