"""What hangs where between CPU and GPU: as a tree, as a list, and what is wrong in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from dashboard import formats
from dashboard.copy_path_devices import Devices
from dashboard.copy_path_links import Speed
from dashboard.copy_path_words import link_now
from dashboard.data import rows
from dashboard.sheets import Cell, Head, Paragraph, Row, Sheet, Table

TABLES = ("topology", "topology_finding")
MODULES = ("topology",)
KINDS = {
    "numa": "NUMA node",
    "root": "root port",
    "bridge": "bridge",
    "gpu": "GPU",
    "nvme": "NVMe",
    "nic": "network card",
    "process": "process",
}


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the topology.

    Attributes:
        address: PCI address, ``node0`` or ``pid 42``.
        parent: Address above; empty for none.
        kind: numa, root, bridge, gpu, nvme, nic or process.
        name: What to call it.
        speed: Its link.
        numa_node: NUMA node, None when unknown.
        cpus: CPUs near it or that it may use; empty when unknown.
    """

    address: str
    parent: str
    kind: str
    name: str
    speed: Speed
    numa_node: int | None
    cpus: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What the newest look showed."""

    rule: str
    subject: str
    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class Topology:
    """The newest look at the machine.

    Attributes:
        at_us: When it was taken; None when there was none.
        nodes: In order of kind and address.
        findings: Warnings first.
    """

    at_us: int | None
    nodes: tuple[Node, ...]
    findings: tuple[Finding, ...]

    def children(self) -> dict[str, list[Node]]:
        """Return the nodes by the address above them; those without one above hang below ''."""
        known = {node.address for node in self.nodes}
        below: dict[str, list[Node]] = {}
        for node in self.nodes:
            below.setdefault(node.parent if node.parent in known else "", []).append(node)
        return below


def read_topology(connection: duckdb.DuckDBPyConnection, devices: Devices) -> Topology:
    """Return the newest look at the machine.

    Args:
        connection: Sees the tables and the module above.
        devices: GPUs by name.
    """
    found = rows(connection, "SELECT * FROM topology_now ORDER BY address")
    order = list(KINDS)
    nodes = sorted((_node(row, devices) for row in found), key=lambda node: _place(node, order))
    findings = rows(
        connection,
        "SELECT rule, subject, severity, text FROM topology_findings_now "
        "ORDER BY severity <> 'warning', rule, subject",
    )
    return Topology(
        at_us=found[0]["wall_us"] if found else None,
        nodes=tuple(nodes),
        findings=tuple(Finding(**finding) for finding in findings),
    )


def _place(node: Node, order: Sequence[str]) -> tuple[int, str]:
    """Return where a node stands among its siblings."""
    return (order.index(node.kind) if node.kind in order else len(order), node.address)


def _node(row: Mapping[str, Any], devices: Devices) -> Node:
    """Return one node."""
    gpu = devices.gpus.get(row["device"]) if row["device"] is not None else None
    name = gpu.name if gpu else row["name"] or ""
    return Node(
        address=row["address"],
        parent=row["parent"] or "",
        kind=row["kind"],
        name=name or row["address"],
        speed=Speed(
            row["link_generation"],
            row["link_width"],
            row["max_link_generation"],
            row["max_link_width"],
        ),
        numa_node=row["numa_node"],
        cpus=row["cpus"] or "",
    )


def findings_sheet(topology: Topology, now_us: int) -> Sheet:
    """Return the findings in words.

    Args:
        topology: The newest look.
        now_us: The present.
    """
    if topology.at_us is None:
        text = "Nobody has looked yet. Source topology does so at its start; see Data health."
        return Sheet(title="Topology", text=[Paragraph((text,), "Not known")])
    sentences = [
        Paragraph((finding.text,), _severity(finding), _tone(finding))
        for finding in topology.findings
    ] or [Paragraph(("Nothing stands out: links are full, processes sit near their GPUs.",))]
    aside = f"as of {formats.clock(topology.at_us, now_us)}"
    return Sheet(title="Topology", aside=aside, text=sentences)


def _severity(finding: Finding) -> str:
    """Return how much a finding matters."""
    return "Look at this" if finding.severity == "warning" else "To know"


def _tone(finding: Finding) -> str:
    """Return the tone of a finding."""
    return "warn" if finding.severity == "warning" else ""


_HEADS = (Head("What"), Head("Address"), Head("Link now", wide=True), Head("NUMA", wide=True))


def list_sheet(topology: Topology) -> Sheet:
    """Return the tree as a list, each node below the one it hangs on."""
    found = tuple(
        Row(
            (
                Cell(node.name, KINDS.get(node.kind, node.kind), indent=depth),
                Cell(node.address if node.address != node.name else ""),
                Cell(link_now(node.speed) if node.speed.generation else ""),
                Cell(_near(node)),
            )
        )
        for node, depth in _walk(topology.children(), "", 0)
    )
    return Sheet(table=Table(_HEADS, found, "No device was found."))


def _walk(
    below: Mapping[str, Sequence[Node]], address: str, depth: int
) -> Iterator[tuple[Node, int]]:
    """Give each node with how deep it hangs, parents first."""
    for node in below.get(address, ()):
        yield node, depth
        yield from _walk(below, node.address, depth + 1)


def _near(node: Node) -> str:
    """Return the NUMA node and its CPUs; of a process those it may use."""
    if node.numa_node is None:
        return ""
    cpus = f", CPUs {node.cpus}" if node.cpus else ""
    return f"node {node.numa_node}{cpus}"
