"""Calibrating one GPU: is it idle, copy, look at its link meanwhile, doubt what came out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from collector.calibration.busy import find_work
from collector.calibration.link_watch import LinkWatch, Watched, is_below_full
from collector.calibration.plausibility import check_rates
from collector.calibration.rates import Measured, MeasureError, Tool
from collector.edges.nvml_process import NoAnswerError
from collector.link_capacity import LinkState
from collector.nvml.messages import GpuFacts, GpuState, LinkAnswer, StateAnswer
from stallscope.clock import Clock

_IDLE_CHECK_S = 1.0


class Outcome(StrEnum):
    """What became of one GPU."""

    MEASURED = "measured"
    BUSY = "busy"
    NOT_APPLICABLE = "not_applicable"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What became of one GPU.

    Attributes:
        gpu: Which one.
        outcome: In one word.
        reason: Why there are no rates, or what is odd about them; empty when all is well.
        measured: The rates; None unless measured.
        state: Generation and lanes that they hold for; None unless measured.
        wall_us: When they were measured; None unless measured.
    """

    gpu: GpuFacts
    outcome: Outcome
    reason: str = ""
    measured: Measured | None = None
    state: LinkState | None = None
    wall_us: int | None = None


class Gpus(Protocol):
    """What is asked of the NVML child."""

    def ask_link(self) -> LinkAnswer:
        """Return what the links carried since the answer before."""

    def ask_state(self) -> StateAnswer:
        """Return the states of the GPUs."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What calibrating needs.

    Attributes:
        gpus: The NVML child.
        tool: What copies.
        clock: Where the time comes from.
        proc: Root of the proc file system.
        force: Copy although a GPU is at work.
        pause: Waits so many seconds.
    """

    gpus: Gpus
    tool: Tool
    clock: Clock
    proc: Path
    force: bool = False
    pause: Callable[[float], None] = time.sleep


def calibrate(gpu: GpuFacts, bench: Bench) -> Calibrated:
    """Return what one GPU's link achieves, or why that is not known; it never raises for a GPU."""
    if gpu.link_state is not GpuState.OK:
        return Calibrated(gpu, _outcome_of(gpu.link_state), gpu.link_reason or gpu.link_state)
    watch = LinkWatch(gpu, bench.gpus.ask_link)
    try:
        work = "" if bench.force else _work(gpu, bench)
        if work:
            return Calibrated(gpu, Outcome.BUSY, work)
        watch.look()
        measured = bench.tool.measure(gpu, watch.look)
        seen = watch.watched()
        _check_address(gpu, measured)
        check_rates(measured.rates, seen.state)
    except (MeasureError, NoAnswerError) as error:
        return Calibrated(gpu, Outcome.FAILED, str(error))
    now_us = bench.clock.now().wall_us
    return Calibrated(gpu, Outcome.MEASURED, _oddity(gpu, seen), measured, seen.state, now_us)


def _outcome_of(state: GpuState) -> Outcome:
    """Return whether a link that cannot be judged is a fault, or just another kind of link."""
    fine = {GpuState.NOT_APPLICABLE, GpuState.NOT_TRUSTWORTHY, GpuState.UNSUPPORTED}
    return Outcome.NOT_APPLICABLE if state in fine else Outcome.FAILED


def _work(gpu: GpuFacts, bench: Bench) -> str:
    bench.gpus.ask_link()  # a window begins
    bench.pause(_IDLE_CHECK_S)
    link, state = bench.gpus.ask_link(), bench.gpus.ask_state()
    return find_work([gpu], state, link, bench.proc).get(gpu.uuid, "")


def _check_address(gpu: GpuFacts, measured: Measured) -> None:
    told = measured.pci_address
    if told and gpu.pci_address and told != gpu.pci_address:
        msg = f"{measured.tool} measured the GPU at {told}, not the one at {gpu.pci_address}"
        raise MeasureError(msg)


def _oddity(gpu: GpuFacts, seen: Watched) -> str:
    """Return what is odd about a link under load, in words."""
    found = []
    if seen.state is not None and is_below_full(gpu, seen.state):
        full = LinkState(gpu.max_generation or seen.state.generation, gpu.max_width or 0)
        found.append(f"under load the link was {seen.state} of {full}, and the figures hold for it")
    if seen.others:
        others = ", ".join(map(str, seen.others))
        found.append(f"it was also seen at {others} while copies ran")
    return "; ".join(found)
