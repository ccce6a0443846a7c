"""What a disk is: model, hashed serial, place on the PCI bus, queue settings. From sysfs alone."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from collector.edges.sysfs import exists, list_names, read_attribute, read_integer, resolve

_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NVME_NAMESPACE = re.compile(r"nvme\d+n\d+")
_NVME_CONTROLLER = re.compile(r"nvme\d+")
_DEVICE_MAPPER = re.compile(r"dm-\d+")
_MD = re.compile(r"md(?:\d+|_.+)")
_IN_USE = re.compile(r"\[(.+?)\]")
_SERIALS = ("device/serial", "serial", "device/wwid", "wwid", "dm/uuid", "md/uuid")
_SERIAL_DIGITS = 16


def disk_folder(sys: Path, name: str) -> Path:
    """Return where sysfs describes a disk; ``/`` in a name is ``!`` there."""
    return sys / "block" / name.replace("/", "!")


def read_facts(folder: Path, name: str, sys: Path, *, virtual: bool) -> dict[str, object]:
    """Return the columns of table device for one disk, all but ``counted``.

    Args:
        folder: What `disk_folder` returned; it need not exist.
        name: Kernel name.
        sys: Root of the sys file system.
        virtual: Loop, ram and the like.
    """
    role = _find_role(folder, name, virtual=virtual)
    controller = _find_controller(folder)
    address = find_pci_address(controller)
    return {
        "kind": "disk",
        "name": read_attribute(folder / "dm/name") or name,
        "role": role,
        "model": read_attribute(folder / "device/model"),
        "serial_hash": hash_serial(_read_serial(folder)),
        "firmware": _read_firmware(folder, controller),
        "pci_address": address,
        "numa_node": read_numa_node(sys, address, controller),
        "queue_requests": read_integer(folder / "queue/nr_requests"),
        "scheduler": parse_scheduler(read_attribute(folder / "queue/scheduler")),
        "block_bytes": read_integer(folder / "queue/logical_block_size"),
    }


def hash_serial(serial: str | None) -> str | None:
    """Return a serial number as a short hash: tells disks apart, cannot be read back."""
    if serial is None:
        return None
    return hashlib.sha256(serial.encode("utf-8", "replace")).hexdigest()[:_SERIAL_DIGITS]


def parse_scheduler(text: str | None) -> str | None:
    """Return the I/O scheduler in use, which the kernel puts in brackets among the others."""
    match = _IN_USE.search(text or "")
    return text if match is None else match[1]


def find_pci_address(device: Path) -> str | None:
    """Return the PCI address of a device; None when it hangs on no PCI bus.

    An NVMe controller says itself how it is attached: over a fabric it has no PCI address, even
    though the network card in front of it has.
    """
    if read_attribute(device / "transport") not in {None, "pcie"}:
        return None
    place = resolve(device)
    addresses = [part for part in place.parts if _PCI_ADDRESS.fullmatch(part)] if place else []
    return addresses[-1] if addresses else None


def read_numa_node(sys: Path, address: str | None, device: Path) -> int | None:
    """Return the NUMA node of a device; the kernel's -1 means unknown, so None."""
    node = read_integer(device / "numa_node")
    if node is None and address is not None:
        node = read_integer(sys / "bus/pci/devices" / address / "numa_node")
    return None if node is None or node < 0 else node


def _find_role(folder: Path, name: str, *, virtual: bool) -> str:
    """Return what sort of disk it is."""
    if virtual:
        return "virtual"
    if exists(folder / "dm") or _DEVICE_MAPPER.fullmatch(name):
        return "dm"
    if exists(folder / "md") or _MD.fullmatch(name):
        return "md"
    return "nvme" if _NVME_NAMESPACE.fullmatch(name) else "disk"


def _find_controller(folder: Path) -> Path:
    """Return the device behind a disk.

    The head of a multipath namespace hangs under its subsystem, which links its controllers: where
    there is but one (a dual-port drive on one port), that is the device.
    """
    device = folder / "device"
    controllers = [name for name in list_names(device) if _NVME_CONTROLLER.fullmatch(name)]
    return device / controllers[0] if len(controllers) == 1 else device


def _read_serial(folder: Path) -> str | None:
    """Return what tells this disk from others of its model."""
    return next(filter(None, (read_attribute(folder / place) for place in _SERIALS)), None)


def _read_firmware(folder: Path, controller: Path) -> str | None:
    """Return the firmware revision: NVMe and SCSI spell it differently."""
    return (
        read_attribute(controller / "firmware_rev")
        or read_attribute(folder / "device/firmware_rev")
        or read_attribute(folder / "device/rev")
    )
