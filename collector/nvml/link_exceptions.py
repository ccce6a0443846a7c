"""GPUs whose PCIe link says nothing about copies between host and GPU. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from collector.nvml.messages import GpuState

_VGPU_GUEST = 2  # nvmlGpuVirtualizationMode_t
_SHARED_MEMORY_CHIPS = ("GB10",)


@dataclass(frozen=True, slots=True)
class LinkTraits:
    """What decides whether a link means something.

    Attributes:
        model: Product name.
        c2c_links: NVLink-C2C links between CPU and GPU; None when not known.
        virtualization_mode: nvmlGpuVirtualizationMode_t; None when not known.
        max_generation: Highest PCIe generation.
        max_width: Highest PCIe width.
    """

    model: str
    c2c_links: int | None = None
    virtualization_mode: int | None = None
    max_generation: int | None = None
    max_width: int | None = None


def judge_link(traits: LinkTraits, kernel_release: str) -> tuple[GpuState, str]:
    """Return what a PCIe link is good for, and why it is good for nothing.

    Args:
        traits: Of the GPU.
        kernel_release: As ``uname -r`` tells.
    """
    # nvidia-docker#1458: constants that look like traffic while nothing moves
    if "microsoft" in kernel_release.lower():
        return GpuState.NOT_TRUSTWORTHY, "WSL: the driver of Windows shows made-up PCIe figures"
    if traits.virtualization_mode == _VGPU_GUEST:
        return GpuState.UNSUPPORTED, "vGPU guest: the link belongs to the host"
    is_shared = any(chip in traits.model for chip in _SHARED_MEMORY_CHIPS)
    is_stub = (traits.max_generation, traits.max_width) == (1, 1)
    if is_shared or (traits.c2c_links and is_stub):
        return (
            GpuState.NOT_APPLICABLE,
            "CPU and GPU share one memory (GB10): nothing is copied over PCIe",
        )
    if traits.c2c_links:
        return (
            GpuState.NOT_APPLICABLE,
            "NVLink-C2C carries what goes between host and GPU, not PCIe",
        )
    return GpuState.OK, ""


MIG_INSTANCE = "MIG instance: the link belongs to the whole GPU, see its row"
