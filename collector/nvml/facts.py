"""What a GPU is: read once, when it is opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collector.edges.nvml import Meter
from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import Code, NvmlError, decides
from collector.edges.nvml_fields import C2C_LINKS, C2C_STATUS
from collector.edges.nvml_values import clean_generation, clean_width
from collector.nvml.link_exceptions import MIG_INSTANCE, LinkTraits, judge_link
from collector.nvml.messages import GpuFacts, GpuState
from collector.pci_text import normalise_address


@dataclass(frozen=True, slots=True)
class Host:
    """What is the same for all GPUs of one machine.

    Attributes:
        driver: Version of the driver.
        kernel_release: As ``uname -r`` tells.
    """

    driver: str
    kernel_release: str


def read_facts(device: Device, known: GpuFacts, host: Host) -> GpuFacts:
    """Return what a GPU is.

    Args:
        device: The GPU.
        known: Its index and UUID.
        host: What is the same for all.

    Raises:
        NvmlError: The failure concerns the whole GPU.
    """
    traits = LinkTraits(
        model=str(device.optional("nvmlDeviceGetName") or ""),
        c2c_links=_count_c2c_links(device),
        virtualization_mode=device.optional_number("nvmlDeviceGetVirtualizationMode"),
        max_generation=clean_generation(
            device.optional_number("nvmlDeviceGetMaxPcieLinkGeneration")
        ),
        max_width=clean_width(device.optional_number("nvmlDeviceGetMaxPcieLinkWidth")),
    )
    link_state, link_reason = judge_link(traits, host.kernel_release)
    return GpuFacts(
        index=known.index,
        uuid=known.uuid,
        model=traits.model,
        pci_address=_read_pci_address(device),
        driver=host.driver,
        max_generation=traits.max_generation,
        max_width=traits.max_width,
        link_state=link_state,
        link_reason=link_reason,
    )


def is_divided(device: Device) -> bool:
    """Return whether a GPU is divided into MIG instances."""
    mode = device.optional("nvmlDeviceGetMigMode")
    return bool(mode and mode[0])


def find_instances(device: Device, whole: GpuFacts) -> Iterator[tuple[Device, GpuFacts]]:
    """Yield the MIG instances of a GPU with what they are.

    Raises:
        NvmlError: The failure concerns the whole GPU.
    """
    for place in range(device.optional_number("nvmlDeviceGetMaxMigDeviceCount") or 0):
        try:
            handle = device.ask("nvmlDeviceGetMigDeviceHandleByIndex", place)
            instance = Device(device.gate, handle, Meter())
            facts = _describe_instance(instance, whole)
        except NvmlError as error:
            if error.code in {Code.NOT_FOUND, Code.INVALID_ARGUMENT}:
                continue  # places are not filled in order
            raise
        yield instance, facts


def _describe_instance(instance: Device, whole: GpuFacts) -> GpuFacts:
    return GpuFacts(
        index=whole.index,
        uuid=str(instance.ask("nvmlDeviceGetUUID")),
        model=str(instance.ask("nvmlDeviceGetName")),
        pci_address=whole.pci_address,
        driver=whole.driver,
        parent=whole.uuid,
        link_state=GpuState.NOT_APPLICABLE,
        link_reason=MIG_INSTANCE,
    )


def _count_c2c_links(device: Device) -> int | None:
    """Return how many NVLink-C2C links are in use; None when nothing tells."""
    try:
        found = device.fields((C2C_LINKS, C2C_STATUS))
    except NvmlError as error:
        if decides(error.code):
            raise
        found = {}
    if C2C_LINKS in found:
        return found[C2C_LINKS] if found.get(C2C_STATUS, 1) else 0
    mode = device.optional("nvmlDeviceGetC2cModeInfoV")
    return None if mode is None else int(mode.isC2cEnabled)


def _read_pci_address(device: Device) -> str | None:
    info = device.optional("nvmlDeviceGetPciInfo_v3")
    try:
        return None if info is None else normalise_address(str(info.busId))
    except UnicodeDecodeError:  # the binding reads every text as UTF-8
        return None
