"""Whether a GPU is at work: copies would slow its engine down, and it would spoil the figures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from collector.edges.sysfs import read_attribute
from collector.nvml.messages import GpuFacts, LinkAnswer, LinkSample, StateAnswer, StateSample
from collector.nvml.raw_rate import raw_bytes_per_second

_BUSY_RATIO = 0.05
_TRAFFIC_RATIO = 0.01
"""Of the raw rate; an idle engine moves next to nothing."""


def find_work(
    gpus: list[GpuFacts], state: StateAnswer, link: LinkAnswer, proc: Path
) -> Mapping[str, str]:
    """Return what each GPU that is at work does, in words, by UUID.

    Args:
        gpus: GPUs to judge.
        state: Their states.
        link: What their links carried over the last second or so.
        proc: Root of the proc file system, for the names of processes.
    """
    states = {sample.uuid: sample for sample in state.samples}
    links = {sample.uuid: sample for sample in link.samples}
    found = {
        gpu.uuid: ", ".join(
            [
                *_processes(states.get(gpu.uuid), proc),
                *_utilisation(states.get(gpu.uuid), links.get(gpu.uuid)),
                *_traffic(gpu, links.get(gpu.uuid)),
            ]
        )
        for gpu in gpus
    }
    return {uuid: work for uuid, work in found.items() if work}


def _processes(sample: StateSample | None, proc: Path) -> list[str]:
    pids = [pid for pid in (sample.compute_pids if sample else ()) if pid != os.getpid()]
    return [f"process {pid}{_name(proc, pid)} uses it" for pid in pids]


def _name(proc: Path, pid: int) -> str:
    name = read_attribute(proc / str(pid) / "comm")
    return f" ({name})" if name else ""


def _utilisation(state: StateSample | None, link: LinkSample | None) -> list[str]:
    told = [
        state.values.get("utilisation_ratio") if state else None,
        link.utilisation_ratio if link else None,
    ]
    ratio = max((value for value in told if value is not None), default=0.0)
    return [f"it is {ratio:.0%} busy"] if ratio > _BUSY_RATIO else []


def _traffic(gpu: GpuFacts, sample: LinkSample | None) -> list[str]:
    raw = raw_bytes_per_second(gpu.max_generation, gpu.max_width)
    if sample is None or raw is None:
        return []
    rates = (("H2D", sample.rx.bytes_per_second), ("D2H", sample.tx.bytes_per_second))
    return [
        f"{rate / 1e9:.2f} GB/s {name} on its link"
        for name, rate in rates
        if rate is not None and rate > _TRAFFIC_RATIO * raw
    ]
