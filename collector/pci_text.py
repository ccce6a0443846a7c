"""Attributes of PCI devices in sysfs to what they mean. Pure; what cannot be read is None."""

from __future__ import annotations

import re
from enum import StrEnum

from collector.nvml.raw_rate import WIDTHS
from collector.whole_number import parse_whole

ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])", re.IGNORECASE)
"""A PCI address in any spelling: domain, bus, device and function."""

_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s")
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_NVIDIA = "0x10de"
_CLASS_DIGITS = len("0x0300")


class PciKind(StrEnum):
    """What a node is; a root is a bridge with no bridge above it."""

    ROOT = "root"
    BRIDGE = "bridge"
    GPU = "gpu"
    NVME = "nvme"
    NIC = "nic"
    OTHER = "other"


WATCHED = (PciKind.GPU, PciKind.NVME, PciKind.NIC)
"""Kinds that move the data of an engine."""

_KINDS = {
    "0x0300": PciKind.GPU,
    "0x0302": PciKind.GPU,
    "0x0108": PciKind.NVME,
    "0x0200": PciKind.NIC,
    "0x0207": PciKind.NIC,
    "0x0604": PciKind.BRIDGE,
}


def normalise_address(text: str) -> str | None:
    """Return a PCI address as sysfs spells it; None when the text is none.

    NVML writes ``00000000:3B:00.0``; domains behind Intel VMD have five digits.
    """
    match = ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def parse_generation(text: str | None) -> int | None:
    """Return the PCIe generation of a speed such as ``16.0 GT/s PCIe`` or, older, ``16 GT/s``."""
    match = _SPEED.match(text or "")
    return None if match is None else _GENERATIONS.get(float(match[1]))


def parse_kind(class_code: str | None, vendor: str | None) -> PciKind:
    """Return what a class code stands for.

    Args:
        class_code: Such as ``0x030200``.
        vendor: Such as ``0x10de``. Only NVIDIA's display adapters are GPUs here: that of a server's
            management controller has the same class.
    """
    code = (class_code or "").lower()[:_CLASS_DIGITS]
    if code == "0x0300" and vendor not in {None, _NVIDIA}:
        return PciKind.OTHER
    return _KINDS.get(code, PciKind.OTHER)


def parse_width(text: str | None) -> int | None:
    """Return a number of lanes; the kernel says 255 for unknown, and 0 where no link is up."""
    width = parse_whole(text or "")
    return width if width in WIDTHS else None
