"""What a look at the topology shows, in sentences. Pure.

The speed of a link is never judged here: an idle link steps down, and sysfs does not tell idle from
busy. Its width is, and so is what a link could do at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from collector.nvml.raw_rate import raw_bytes_per_second
from collector.pci_text import PciKind
from collector.pci_tree import PciNode
from collector.process_text import parse_cpu_list
from collector.topology_look import Look


class Severity(StrEnum):
    """How much a finding matters."""

    WARNING = "warning"
    INFO = "info"


class Finding(NamedTuple):
    """One finding; the columns of table topology_finding.

    Attributes:
        rule: Which rule found it.
        subject: Address it is about.
        severity: How much it matters.
        text: One sentence for people.
    """

    rule: str
    subject: str
    severity: Severity
    text: str


class LinkShape(NamedTuple):
    """What a link could do.

    Attributes:
        generation: PCIe generation; None when unknown.
        width: Lanes; None when unknown.
    """

    generation: int | None
    width: int | None

    @property
    def rate(self) -> float | None:
        """What one direction carries at most, in bytes/s; None when unknown."""
        return raw_bytes_per_second(self.generation, self.width)

    def __str__(self) -> str:
        width = "" if self.width is None else f"x{self.width}"
        generation = "" if self.generation is None else f"gen{self.generation}"
        return f"{width} {generation}".strip()


def find_findings(look: Look) -> tuple[Finding, ...]:
    """Return all findings, warnings first.

    On a guest nothing is said about links: its buses are what the hypervisor made up.
    """
    found = [*_find_numa_mismatches(look)]
    if look.virtualised:
        found.append(_VIRTUALISED)
    else:
        found += _find_shared_uplinks(look)
        found += _find_narrow_links(look)
        found += _find_narrow_paths(look)
    return tuple(sorted(found, key=lambda finding: finding.severity != Severity.WARNING))


def name_device(node: PciNode, look: Look) -> str:
    """Return what people call a device: ``GPU 3``, ``nvme1``, ``mlx5_0``, else its address."""
    known = look.gpus.get(node.address)
    if known is not None:
        return f"GPU {known.index}"
    if node.name is not None:
        return node.name
    return f"{_WORDS.get(node.kind, 'device')} {node.address}"


_WORDS = {PciKind.GPU: "GPU", PciKind.NVME: "NVMe drive", PciKind.NIC: "network card"}
_VIRTUALISED = Finding(
    "virtualised",
    "machine",
    Severity.INFO,
    "This machine is a guest: its buses are what the hypervisor shows, so nothing is said about "
    "links and shared uplinks",
)


def _find_shared_uplinks(look: Look) -> Iterator[Finding]:
    for bridge, addresses in look.tree.shared_uplinks().items():
        devices = [look.tree.nodes[address] for address in addresses]
        kinds = [device.kind for device in devices]
        if PciKind.GPU not in kinds:
            continue
        uplink = _reach(look, bridge)
        contended = kinds.count(PciKind.GPU) > 1 or PciKind.NVME in kinds
        roomy = _has_room(uplink, [_reach(look, address) for address in addresses])
        text = f"{_join(name_device(device, look) for device in devices)} share one "
        text += f"{uplink} uplink ({bridge})".lstrip()
        yield Finding(
            "shared_uplink",
            bridge,
            Severity.WARNING if contended and not roomy else Severity.INFO,
            f"{text}, which has room for all of them at once" if roomy else text,
        )


def _has_room(uplink: LinkShape, links: list[LinkShape]) -> bool:
    """Return whether an uplink certainly carries all links below it at once."""
    rates = [link.rate for link in links]
    known = [rate for rate in rates if rate is not None]
    return uplink.rate is not None and len(known) == len(rates) and sum(known) <= uplink.rate


def _find_narrow_links(look: Look) -> Iterator[Finding]:
    for node in look.tree.nodes.values():
        if node.kind not in {PciKind.GPU, PciKind.NVME} or None in {node.width, node.max_width}:
            continue
        if (node.width or 0) < (node.max_width or 0):
            severity, why = _explain_narrow_link(node, look)
            text = f"{name_device(node, look)} has {node.width} of {node.max_width} lanes: {why}"
            yield Finding("narrow_link", node.address, severity, text)


def _explain_narrow_link(node: PciNode, look: Look) -> tuple[Severity, str]:
    """Return how much a narrow link matters and why.

    Some cards report more lanes than their boards have (T4, A10G): NVML and sysfs alike.
    """
    port = look.tree.path(node.address)[1:2]
    if port and port[0].max_width == node.width:
        return Severity.INFO, f"its slot ({port[0].address}) has no more"
    alike = [
        other.width
        for other in look.tree.nodes.values()
        if (other.kind, other.model) == (node.kind, node.model) and node.model is not None
    ]
    if len(alike) > 1 and set(alike) == {node.width}:
        return Severity.INFO, f"so have all {len(alike)} of its model here, by board or slot"
    return Severity.WARNING, "the slot or the board is wired so, or lanes failed"


def _find_narrow_paths(look: Look) -> Iterator[Finding]:
    """Yield a finding per bridge that is the narrowest place above a GPU.

    The port right above the GPU is the other end of the GPU's own link.
    """
    below: dict[str, list[PciNode]] = {}
    for node in look.tree.nodes.values():
        if node.kind == PciKind.GPU:
            bridge = _find_narrower(look, node)
            if bridge is not None:
                below.setdefault(bridge, []).append(node)
    for bridge, gpus in below.items():
        names = _join(name_device(gpu, look) for gpu in gpus)
        own = _reach(look, gpus[0].address)
        text = f"The {_reach(look, bridge)} link of bridge {bridge} is less than the {own} link of "
        yield Finding("narrow_path", bridge, Severity.WARNING, f"{text}{names} below it")


def _find_narrower(look: Look, gpu: PciNode) -> str | None:
    """Return the bridge that limits a GPU below its own link; None when there is none."""
    own = _reach(look, gpu.address).rate
    rates = {
        bridge.address: rate
        for bridge in look.tree.path(gpu.address)[2:]
        if (rate := LinkShape(bridge.max_generation, bridge.width).rate) is not None
    }
    narrowest = min(rates, key=rates.__getitem__, default=None)
    if own is None or narrowest is None or rates[narrowest] >= own:
        return None
    return narrowest


def _reach(look: Look, address: str) -> LinkShape:
    """Return what the link from a device or switch upwards could do at its present width."""
    ends = look.tree.path(address)[:2]
    generations = [end.max_generation for end in ends if end.max_generation is not None]
    return LinkShape(min(generations, default=None), ends[0].width)


def _find_numa_mismatches(look: Look) -> Iterator[Finding]:
    """Yield a finding per process that is held away from a GPU it uses."""
    sockets = frozenset(node.number for node in look.numa_nodes if node.cpus is not None)
    for process in look.processes:
        held = {
            "runs on": look.nodes_of(process.cpus),
            "takes memory from": parse_cpu_list(process.memory_nodes or "") & sockets,
        }
        gpus = [look.tree.nodes[address] for address in process.gpus if address in look.tree.nodes]
        far = [gpu for gpu in gpus if any(_is_away(gpu, nodes) for nodes in held.values())]
        if far:
            ways = " and ".join(
                f"{how} {_name_nodes(nodes)}"
                for how, nodes in held.items()
                if any(_is_away(gpu, nodes) for gpu in far)
            )
            places = _join(f"{name_device(gpu, look)} on node {gpu.numa_node}" for gpu in far)
            text = f"{process.name} (pid {process.pid}) {ways}, but uses {places}: its copies "
            text += "cross from node to node"
            yield Finding("numa_mismatch", f"pid {process.pid}", Severity.WARNING, text)


def _is_away(gpu: PciNode, nodes: frozenset[int]) -> bool:
    """Return whether a GPU hangs on none of these nodes; never where either is unknown."""
    return gpu.numa_node is not None and bool(nodes) and gpu.numa_node not in nodes


def _name_nodes(nodes: frozenset[int]) -> str:
    plural = "s" if len(nodes) > 1 else ""
    return f"node{plural} {_join(str(node) for node in sorted(nodes))}"


def _join(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
