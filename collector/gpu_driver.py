"""What GPU sources ask of the driver, and what its refusals mean in the words of source_health."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from collector.gpu_requests import GpuRequests
from collector.nvml.messages import Greeting, LinkAnswer, StateAnswer, Trouble, TroubleKind
from collector.source import NoData, SourceError, State
from stallscope.clock import Instant
from stallscope.units import US_PER_SECOND


class GpuDriver(Protocol):
    """The driver, behind a child process; `collector.edges.nvml_process.NvmlProcess` is one."""

    def greet(self) -> Greeting:
        """Return what GPUs there are."""

    def ask_link(self) -> LinkAnswer:
        """Return what the links carried since the answer before."""

    def ask_state(self) -> StateAnswer:
        """Return the states of the GPUs."""

    def rest(self) -> None:
        """Let go of the driver; the next question takes hold of it again."""

    def leave(self) -> None:
        """Note that one user less needs it."""


_STATES: Mapping[TroubleKind, State] = {
    TroubleKind.NO_LIBRARY: State.NOT_FOUND,
    TroubleKind.NO_DRIVER: State.NOT_FOUND,
    TroubleKind.NO_PERMISSION: State.RESTRICTED,
    TroubleKind.ACCESS_LOST: State.RESTRICTED,
}


def refuse(trouble: Trouble) -> NoData:
    """Return why there is no data.

    Raises:
        SourceError: It is a failure that is worth counting: a crash, a hang, a library that does
            not match the driver.
    """
    state = _STATES.get(trouble.kind)
    if state is None:
        raise SourceError(trouble.text)
    return NoData(state, trouble.text)


def let_go(requests: GpuRequests, now: Instant, driver: GpuDriver) -> NoData | None:
    """Let go of the driver when that is asked for.

    Returns:
        What to answer instead of a reading; None when nobody asks for it.
    """
    left_us = requests.release_left_us(now.mono_us)
    if left_us == 0:
        return None
    driver.rest()
    left_s = -(-left_us // US_PER_SECOND)
    reason = f"the driver is let go of on request, for {left_s} s more"
    return NoData(State.DISABLED, reason, rest_us=0)
