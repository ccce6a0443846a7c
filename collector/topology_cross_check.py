"""Where ``nvidia-smi topo -m`` and sysfs disagree. Pure; sysfs is believed, people are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from collector.pci_text import PciKind
from collector.topo_matrix import TopoMatrix
from collector.topology_findings import Finding, Severity, name_device
from collector.topology_look import Look

_RULE = "cross_check"
_BELOW_ONE_BRIDGE = {"PIX", "PXB"}
_NO_COMMON_BRIDGE = {"PHB", "NODE", "SYS"}


def explain_no_cross_check(reason: str) -> Finding:
    """Return the finding that there was nothing to compare with."""
    text = f"nvidia-smi topo -m could not be compared: {reason}"
    return Finding(_RULE, "nvidia-smi", Severity.INFO, text)


def find_disagreements(look: Look, matrix: TopoMatrix) -> tuple[Finding, ...]:
    """Return where the two disagree on what shares a bridge, or on the NUMA node of a GPU.

    How many bridges lie between two devices is not compared: the wording of PIX and PXB changed
    with driver versions. GPUs that are joined by NVLink say nothing about their buses. On a guest
    both sides are fiction.
    """
    if look.virtualised:
        return ()
    if matrix.problems:
        return (explain_no_cross_check("; ".join(matrix.problems)),)
    places = _find_places(look, matrix)
    return (*_compare_bridges(look, matrix, places), *_compare_nodes(look, matrix, places))


def _find_places(look: Look, matrix: TopoMatrix) -> Mapping[str, str]:
    """Return the PCI address behind each label of the matrix, as far as it is known."""
    by_name = {
        node.name: address
        for address, node in look.tree.nodes.items()
        if node.kind == PciKind.NIC and node.name is not None
    }
    by_name |= {f"GPU{gpu.index}": address for address, gpu in look.gpus.items()}
    names = {label: matrix.names.get(label, label) for label in matrix.labels}
    return {
        label: by_name[name]
        for label, name in names.items()
        if by_name.get(name) in look.tree.nodes
    }


def _compare_bridges(
    look: Look, matrix: TopoMatrix, places: Mapping[str, str]
) -> Iterator[Finding]:
    for one, other in combinations(places, 2):
        relation = matrix.relations[one, other]
        shared = _share_bridge(look, places[one], places[other])
        if relation in (_NO_COMMON_BRIDGE if shared else _BELOW_ONE_BRIDGE):
            names = [name_device(look.tree.nodes[places[each]], look) for each in (one, other)]
            seen = "below a bridge they share" if shared else "below no bridge in common"
            text = f"nvidia-smi calls {names[0]} to {names[1]} {relation}, sysfs shows them {seen}"
            yield Finding(_RULE, f"{places[one]} {places[other]}", Severity.WARNING, text)


def _share_bridge(look: Look, one: str, other: str) -> bool:
    above = ({node.address for node in look.tree.path(each)[1:]} for each in (one, other))
    return bool(set.intersection(*above))


def _compare_nodes(look: Look, matrix: TopoMatrix, places: Mapping[str, str]) -> Iterator[Finding]:
    for label, address in places.items():
        node = look.tree.nodes[address]
        said = matrix.numa_nodes.get(label)
        if said and node.numa_node is not None and node.numa_node not in said:
            theirs = ", ".join(map(str, sorted(said)))
            text = f"nvidia-smi puts {name_device(node, look)} on NUMA node {theirs}, "
            text += f"sysfs on node {node.numa_node}"
            yield Finding(_RULE, address, Severity.WARNING, text)
