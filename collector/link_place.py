"""Where GPUs hang: how wide their links can be, and which links above them they pass.

A GPU behind a switch shares the switch's link to the root port, and reaches no more than that
carries. In a guest the buses are what a hypervisor made up, so nothing is claimed from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from collector.edges.sysfs import read_attribute
from collector.link_capacity import LinkState
from collector.pci_text import PciKind, parse_generation, parse_width
from collector.pci_tree import PciNode, PciTree, read_pci_tree
from collector.source import Machine
from collector.topology_look import read_virtualised
from stallscope.units import US_PER_SECOND

_REFRESH_US = 60 * US_PER_SECOND


@dataclass(frozen=True, slots=True)
class Uplink:
    """The link of a switch to what is above it.

    Attributes:
        port: The port that looks up.
        now: The link as it is; None when it cannot be read.
        max_generation: Highest generation of both its ends together; None when unknown.
    """

    port: PciNode
    now: LinkState | None
    max_generation: int | None

    @property
    def best(self) -> LinkState | None:
        """The same lanes at the highest generation."""
        if self.now is None:
            return None
        return LinkState(max(self.max_generation or 0, self.now.generation), self.now.width)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one GPU hangs.

    Attributes:
        full_width: Most lanes of both ends of its link together; None when an end is unknown.
        uplinks: Links above its own, up to the root port.
    """

    full_width: int | None = None
    uplinks: tuple[Uplink, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedPort:
    """A port whose link several GPUs share.

    Attributes:
        uplink: Its link.
        gpus: PCI addresses of the GPUs below it.
    """

    uplink: Uplink
    gpus: tuple[str, ...]


class LinkPlaces:
    """Places of GPUs, from sysfs. The tree is read every minute, links of switches at each poll.

    Args:
        machine: What may be touched.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._tree = PciTree()
        self._shared: Mapping[str, tuple[str, ...]] = {}
        self._read_us: int | None = None
        self._states: dict[str, LinkState | None] = {}

    def refresh(self, now_us: int) -> None:
        """Begin a poll: links that were read before are read again when they are asked for."""
        self._states = {}
        if self._read_us is not None and now_us - self._read_us < _REFRESH_US:
            return
        self._read_us = now_us
        is_guest = read_virtualised(self._machine.proc)
        self._tree = PciTree() if is_guest else read_pci_tree(self._machine.sys)
        self._shared = {
            bridge: gpus
            for bridge, devices in self._tree.shared_uplinks().items()
            if len(gpus := tuple(self._only_gpus(devices))) > 1
        }

    def find(self, address: str | None) -> Place:
        """Return where the GPU at a PCI address hangs; an empty place when nothing is known."""
        path = () if address is None else self._tree.path(address)
        if len(path) < 2:  # noqa: PLR2004 - a link has two ends
            return Place()
        widths = [node.max_width for node in path[:2]]
        known = [width for width in widths if width is not None]
        # Every second node looks up: the device, then the upper port of each switch.
        uplinks = tuple(self._uplink(node) for node in path[2::2])
        return Place(min(known) if len(known) == len(widths) else None, uplinks)

    def shared(self) -> tuple[SharedPort, ...]:
        """Return the ports whose link several GPUs share."""
        return tuple(
            SharedPort(self._uplink(self._tree.nodes[bridge]), gpus)
            for bridge, gpus in self._shared.items()
        )

    def _only_gpus(self, addresses: Iterable[str]) -> Iterable[str]:
        return (each for each in addresses if self._tree.nodes[each].kind is PciKind.GPU)

    def _uplink(self, port: PciNode) -> Uplink:
        if port.address not in self._states:
            folder = self._machine.sys / "bus/pci/devices" / port.address
            self._states[port.address] = _read_state(folder)
        above = None if port.parent is None else self._tree.nodes.get(port.parent)
        ends = [port.max_generation, above.max_generation if above is not None else None]
        known = [generation for generation in ends if generation is not None]
        return Uplink(port, self._states[port.address], min(known, default=None))


def _read_state(device: Path) -> LinkState | None:
    """Return generation and width of a device's link right now."""
    generation = parse_generation(read_attribute(device / "current_link_speed"))
    width = parse_width(read_attribute(device / "current_link_width"))
    return None if generation is None or width is None else LinkState(generation, width)
