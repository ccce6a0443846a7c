"""What hangs where on the PCI buses, from sysfs: bridges, GPUs, NVMe drives, network cards.

The tree is the path of a device in /sys/devices: every address in it is a bridge above the device
(Documentation/ABI/testing/sysfs-bus-pci).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from collector.edges.sysfs import exists, list_names, read_attribute, read_integer, resolve
from collector.pci_text import ADDRESS, WATCHED, PciKind, parse_generation, parse_kind, parse_width

_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_NVME_CONTROLLER = re.compile(r"nvme\d+")


@dataclass(frozen=True, slots=True)
class PciNode:
    """One device or bridge; what sysfs does not tell is None.

    The link of a device, and of the port of a switch that looks up, leads upwards; the link of a
    root port, and of a port that looks down, leads to what hangs below it.

    Attributes:
        address: As sysfs spells it, ``0000:3b:00.0``.
        parent: Address of the bridge above; None below a host bridge.
        kind: What it is.
        numa_node: NUMA node.
        generation: PCIe generation of its link now; an idle link may have stepped down.
        width: Lanes of its link now.
        max_generation: Highest generation it supports.
        max_width: Most lanes it supports, by its own word.
        name: ``nvme0``, ``mlx5_0`` or ``eth0``.
        model: Vendor and device, ``10de:2330``.
        host_bridge: The root complex it hangs below, ``pci0000:3a``.
    """

    address: str
    parent: str | None
    kind: PciKind
    numa_node: int | None = None
    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None
    name: str | None = None
    model: str | None = None
    host_bridge: str | None = None


class PciPlace(NamedTuple):
    """Where a device hangs.

    Attributes:
        host_bridge: The root complex, as sysfs names it; None when the path has none.
        chain: Addresses from the root port down to the device itself.
    """

    host_bridge: str | None
    chain: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PciTree:
    """The GPUs, NVMe drives and network cards of a machine, and the bridges above them.

    Attributes:
        nodes: By address.
        devices: How many PCI devices the machine has in all.
        unreadable: How many of them would not say what they are.
    """

    nodes: Mapping[str, PciNode] = field(default_factory=dict)
    devices: int = 0
    unreadable: int = 0

    def path(self, address: str) -> tuple[PciNode, ...]:
        """Return a device and the bridges above it up to its root port; empty when unknown.

        What a copy can reach is the least of all these links: the device's own may lie where
        there are bridges inside a card (ilya-zlobintsev/LACT#593).
        """
        found: list[PciNode] = []
        node = self.nodes.get(address)
        while node is not None:
            found.append(node)
            node = None if node.parent is None else self.nodes.get(node.parent)
        return tuple(found)

    def shared_uplinks(self) -> Mapping[str, tuple[str, ...]]:
        """Return the bridges whose link several devices share, and those devices.

        These are the lowest bridges that two GPUs, NVMe drives or network cards have in common:
        of a switch the port that looks up, whose own link is what they share. A bridge higher up
        is there only when further devices join at it. Functions of one card count once.
        """
        branches: dict[str, dict[str, set[str]]] = {}
        for address, node in self.nodes.items():
            if node.kind in WATCHED:
                below = address.partition(".")[0]
                for above in self.path(address)[1:]:
                    branches.setdefault(above.address, {}).setdefault(below, set()).add(address)
                    below = above.address
        return {
            bridge: tuple(sorted(set().union(*groups.values())))
            for bridge, groups in sorted(branches.items())
            if len(groups) > 1
        }


def parse_place(parts: Sequence[str]) -> PciPlace:
    """Return where a device hangs, from the parts of its path in /sys/devices.

    Behind Intel VMD a second host bridge hangs below a device; its root ports are as real as
    others, so all above the last host bridge is left out.
    """
    bridges = [index for index, part in enumerate(parts) if _HOST_BRIDGE.fullmatch(part)]
    start = bridges[-1] if bridges else 0
    chain = tuple(part for part in parts[start:] if ADDRESS.fullmatch(part))
    return PciPlace(parts[start] if bridges else None, chain)


def read_pci_tree(sys: Path) -> PciTree:
    """Return the tree of a machine; empty where sysfs shows no PCI bus.

    Only what hangs above a GPU, NVMe drive or network card is asked for its link. Virtual functions
    of a card are left out: they are no second card.

    Args:
        sys: Root of the sys file system.
    """
    folder = sys / "bus/pci/devices"
    addresses = [name for name in list_names(folder) if ADDRESS.fullmatch(name)]
    kinds = {address: _read_kind(folder / address) for address in addresses}
    nodes: dict[str, PciNode] = {}
    for address, kind in kinds.items():
        if kind in WATCHED and not exists(folder / address / "physfn"):
            for node in _read_path(folder, address, kind, known=nodes):
                nodes[node.address] = node
    return PciTree(nodes, len(addresses), sum(kind is None for kind in kinds.values()))


def _read_kind(device: Path) -> PciKind | None:
    """Return what a device is; None when it would not say."""
    code = read_attribute(device / "class")
    return None if code is None else parse_kind(code, read_attribute(device / "vendor"))


def _read_path(
    folder: Path, address: str, kind: PciKind, known: Mapping[str, PciNode]
) -> Iterator[PciNode]:
    """Yield a device and those bridges above it that are not known yet."""
    place = resolve(folder / address)
    host_bridge, chain = parse_place(place.parts if place else ())
    if chain[-1:] != (address,):  # the link leads nowhere, or not to the device
        chain = (address,)
    for parent, own in zip((None, *chain), chain, strict=False):
        if own == address:
            yield _read_node(folder, own, parent, kind, host_bridge)
        elif own not in known:
            bridge = PciKind.BRIDGE if parent else PciKind.ROOT
            yield _read_node(folder, own, parent, bridge, host_bridge)


def _read_node(
    folder: Path, address: str, parent: str | None, kind: PciKind, host_bridge: str | None
) -> PciNode:
    """Return one node with all that sysfs tells of it."""
    device = folder / address
    numa_node = read_integer(device / "numa_node")
    return PciNode(
        address=address,
        parent=parent,
        kind=kind,
        numa_node=None if numa_node is None or numa_node < 0 else numa_node,
        generation=parse_generation(read_attribute(device / "current_link_speed")),
        width=parse_width(read_attribute(device / "current_link_width")),
        max_generation=parse_generation(read_attribute(device / "max_link_speed")),
        max_width=parse_width(read_attribute(device / "max_link_width")),
        name=_read_name(device, kind),
        model=_read_model(device),
        host_bridge=host_bridge,
    )


def _read_name(device: Path, kind: PciKind) -> str | None:
    """Return what people call a drive or card: its controller, RDMA device or interface."""
    if kind == PciKind.NVME:
        names = [name for name in list_names(device / "nvme") if _NVME_CONTROLLER.fullmatch(name)]
    elif kind == PciKind.NIC:
        names = [*list_names(device / "infiniband"), *list_names(device / "net")]
    else:
        names = []
    return names[0] if names else None


def _read_model(device: Path) -> str | None:
    vendor, model = (read_attribute(device / name) for name in ("vendor", "device"))
    if vendor is None or model is None:
        return None
    return f"{vendor.removeprefix('0x')}:{model.removeprefix('0x')}"
