"""The one gate through which every call of NVML passes; the only module that imports pynvml.

Every call is timed, and every failure becomes an `NvmlError`. The binding's own loader loses what
the dynamic loader said, so the library is loaded here before the binding finds it.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

import pynvml  # type: ignore[import-untyped]  # one file without types

from collector.edges.nvml_errors import Code, NvmlError, trouble_for
from collector.nvml.messages import Trouble, TroubleKind
from stallscope.units import NS_PER_US

_LIBRARY = "libnvidia-ml.so.1"  # what the binding loads; it reads no NVML_DLL_PATH
_HINT = (
    "no NVIDIA driver here, or its library is not in this container: start the container with "
    # NVIDIA/nvidia-docker#876, #1163: without "utility" the library is not mounted
    "NVIDIA_DRIVER_CAPABILITIES=utility (or =all) and the NVIDIA container toolkit"
)


class Meter:
    """Adds up the time that calls took; several threads may share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total_ns = 0

    def add(self, took_ns: int) -> None:
        """Count one call."""
        with self._lock:
            self._total_ns += took_ns

    def take(self) -> int:
        """Return what calls took since the last time, in microseconds."""
        with self._lock:
            total_ns, self._total_ns = self._total_ns, 0
        return total_ns // NS_PER_US


class Gate:
    """Calls functions of the binding by name."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}
        self._exports: dict[str, Callable[..., int]] = {}

    def call(self, meter: Meter, name: str, *arguments: object) -> Any:  # noqa: ANN401 - as NVML
        """Return what a function of the binding returns.

        Args:
            meter: Where its time is counted.
            name: For example ``nvmlDeviceGetUUID``.
            arguments: What it takes.

        Raises:
            NvmlError: It failed, or the binding or the library is too old to have it.
        """
        function = self._functions.get(name) or self._find(name)
        began_ns = time.monotonic_ns()
        try:
            return function(*arguments)
        except pynvml.NVMLError as error:
            raise NvmlError(error.value, name, str(error)) from None
        except UnicodeDecodeError as error:  # the binding reads every text as UTF-8
            return error.object.decode("utf-8", "replace")
        finally:
            meter.add(time.monotonic_ns() - began_ns)

    def call_prepared(self, meter: Meter, name: str, *arguments: object) -> None:
        """Call a function of the library with what is prepared for it already.

        The binding makes its structs anew for every call: too dear for what is called 30 times a
        second for each GPU.

        Args:
            meter: Where its time is counted.
            name: Of the function in the library, with its version.
            arguments: As the library takes them; where it returns something, too.

        Raises:
            NvmlError: It failed.
        """
        function = self._exports.get(name) or self._find_export(name)
        began_ns = time.monotonic_ns()
        code = function(*arguments)
        meter.add(time.monotonic_ns() - began_ns)
        if code:
            raise NvmlError(code, name, str(pynvml.NVMLError(code)))

    def _find_export(self, name: str) -> Callable[..., int]:
        try:
            function: Callable[..., int] = ctypes.CDLL(_LIBRARY)[name]
        except AttributeError:
            raise NvmlError(Code.FUNCTION_NOT_FOUND, name, "not in this driver") from None
        self._exports[name] = function
        return function

    def _find(self, name: str) -> Callable[..., Any]:
        function = getattr(pynvml, name, None)
        if function is None:
            raise NvmlError(Code.FUNCTION_NOT_FOUND, name, "not in this nvidia-ml-py")
        self._functions[name] = function
        return function  # type: ignore[no-any-return]  # the binding has no types


class Library:
    """NVML as loaded into this process.

    Attributes:
        gate: Calls it.
    """

    def __init__(self) -> None:
        self.gate = Gate()
        self._meter = Meter()

    def start(self) -> Trouble | None:
        """Load and initialise NVML.

        Returns:
            Why it does not serve; None when it does.
        """
        try:
            ctypes.CDLL(_LIBRARY)
        except OSError as error:
            return Trouble(TroubleKind.NO_LIBRARY, f"{error}: {_HINT}")
        return self.initialise()

    def initialise(self) -> Trouble | None:
        """Initialise NVML, for the first time or again; handles of devices must be got anew.

        Returns:
            Why it does not serve; None when it does.
        """
        try:
            self._call("nvmlInit")
        except NvmlError as error:
            return trouble_for(error)
        return None

    def shutdown(self) -> None:
        """Let go of the driver."""
        try:
            self._call("nvmlShutdown")
        except NvmlError:
            return  # it was not initialised, or the driver has gone: there is nothing to let go of

    def driver_version(self) -> str:
        """Return the version of the driver; empty when it does not tell."""
        return self._text("nvmlSystemGetDriverVersion")

    def library_version(self) -> str:
        """Return the version of NVML; empty when it does not tell."""
        return self._text("nvmlSystemGetNVMLVersion")

    def count(self) -> int:
        """Return how many GPUs the driver counts.

        Raises:
            NvmlError: It does not tell.
        """
        return int(self._call("nvmlDeviceGetCount"))

    def handle(self, index: int) -> object:
        """Return the handle of a GPU.

        Raises:
            NvmlError: It cannot be opened.
        """
        return self._call("nvmlDeviceGetHandleByIndex", index)

    def _text(self, name: str) -> str:
        try:
            return str(self._call(name))
        except NvmlError:
            return ""

    def _call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - as NVML returns it
        return self.gate.call(self._meter, name, *arguments)


def new_gpm_request() -> Any:  # noqa: ANN401 - a struct of the binding, which has no types
    """Return an empty nvmlGpmMetricsGet_t, 19104 bytes as of NVML 13.5; reuse it."""
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    return request
