"""Samples that say why there is nothing to say."""

from __future__ import annotations

from collections.abc import Sequence

from collector.nvml.messages import GpuFacts, GpuState, LinkSample, StateSample
from collector.nvml.stamping import now


def blank_links(facts: Sequence[GpuFacts], state: GpuState, reason: str) -> tuple[LinkSample, ...]:
    """Return a sample without rates for each GPU that has a name."""
    at = now()
    return tuple(
        LinkSample(each.uuid, state, reason, None, at.wall_us, at.mono_us)
        for each in facts
        if each.uuid
    )


def blank_states(
    facts: Sequence[GpuFacts], state: GpuState, reason: str
) -> tuple[StateSample, ...]:
    """Return a sample without values for each GPU that has a name."""
    at = now()
    return tuple(
        StateSample(each.uuid, state, reason, at.wall_us, at.mono_us) for each in facts if each.uuid
    )
