"""What NVML's return codes mean for one GPU and for the library as a whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from collector.nvml.messages import GpuState, Trouble, TroubleKind


class Code(IntEnum):
    """Return codes that something follows from (nvmlReturn_t in nvml.h), and one of our own."""

    UNFORESEEN = -1
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    DRIVER_NOT_LOADED = 9
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18
    NO_DATA = 21
    VGPU_ECC_NOT_SUPPORTED = 22
    ARGUMENT_VERSION_MISMATCH = 25
    DEPRECATED = 26
    GPU_NOT_FOUND = 28
    UNKNOWN = 999


class NvmlError(Exception):
    """A call failed.

    Args:
        code: NVML's return code.
        call: Which call.
        text: What NVML says about the code.
    """

    def __init__(self, code: int, call: str, text: str) -> None:
        super().__init__(f"{call}: {text} ({code})")
        self.code = code
        self.call = call
        self.text = text


_LASTING = frozenset(
    {
        Code.NOT_SUPPORTED,
        Code.NO_PERMISSION,
        Code.FUNCTION_NOT_FOUND,
        Code.VGPU_ECC_NOT_SUPPORTED,
        Code.DEPRECATED,
    }
)
_OF_THE_LIBRARY = frozenset(
    {
        Code.UNINITIALIZED,
        Code.DRIVER_NOT_LOADED,
        Code.LIB_RM_VERSION_MISMATCH,
    }
)
_OF_THE_GPU = frozenset(
    {
        Code.GPU_IS_LOST,
        Code.RESET_REQUIRED,
        Code.GPU_NOT_FOUND,
    }
)
_KINDS: Mapping[int, TroubleKind] = {
    Code.NO_PERMISSION: TroubleKind.NO_PERMISSION,
    Code.DRIVER_NOT_LOADED: TroubleKind.NO_DRIVER,
    Code.LIBRARY_NOT_FOUND: TroubleKind.NO_LIBRARY,
    Code.LIB_RM_VERSION_MISMATCH: TroubleKind.VERSION_MISMATCH,
    Code.UNKNOWN: TroubleKind.ACCESS_LOST,
}
_ADVICE: Mapping[int, str] = {
    Code.UNINITIALIZED: "initialising it again did not help",
    Code.NO_PERMISSION: "allow this user to read /dev/nvidiactl and /dev/nvidia0 to /dev/nvidia<n>",
    Code.DRIVER_NOT_LOADED: "load the kernel module nvidia, or run nvidia-smi once as root",
    Code.LIB_RM_VERSION_MISMATCH: "the driver was changed under the running library: it serves "
    "again once library and kernel module have one version, after a reboot at the latest",
    # NVIDIA/nvidia-docker#1671: systemd's daemon-reload rewrites the device cgroup of containers
    Code.UNKNOWN: "inside a container the device cgroup has often lost /dev/nvidia* after a reload "
    "of systemd: restart the container, or hand the devices in with --device",
}


def is_lasting(code: int) -> bool:
    """Return whether asking the same of the same GPU again is in vain."""
    return code in _LASTING


def ends_library(code: int) -> bool:
    """Return whether no call of this process will work any more as things stand."""
    return code in _OF_THE_LIBRARY


def ends_gpu(code: int) -> bool:
    """Return whether no call for this GPU will work any more as things stand."""
    return code in _OF_THE_GPU


def is_our_fault(code: int) -> bool:
    """Return whether we are at fault, as with a struct that is not the library's: never hidden."""
    return code in {Code.ARGUMENT_VERSION_MISMATCH, Code.UNFORESEEN}


def decides(code: int) -> bool:
    """Return whether a failure concerns more than the one value that was asked for.

    An unknown error does not say: it may be one feature's, and is the GPU's when nothing works.
    """
    return ends_library(code) or ends_gpu(code) or is_our_fault(code)


def state_for(code: int) -> GpuState:
    """Return what a failure makes of the GPU it happened to."""
    if code == Code.NO_PERMISSION:
        return GpuState.NO_PERMISSION
    if ends_gpu(code) or code == Code.UNKNOWN:
        return GpuState.GPU_LOST
    is_missing = is_lasting(code) or code == Code.NO_DATA
    return GpuState.UNSUPPORTED if is_missing else GpuState.SOURCE_BROKEN


def trouble_for(error: NvmlError) -> Trouble:
    """Return why the library does not serve, with what to do about it."""
    advice = _ADVICE.get(error.code)
    text = str(error) if advice is None else f"{error}; {advice}"
    return Trouble(_KINDS.get(error.code, TroubleKind.FAILED), text, error.code)
