"""The state of a link while copies run: idle links step down, so only a busy one tells."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from collector.edges.nvml_process import NoAnswerError
from collector.link_capacity import LinkState
from collector.link_load import is_loaded
from collector.nvml.messages import GpuFacts, LinkAnswer, LinkSample


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen of a link.

    Attributes:
        state: What it was for most of the time under load; None when it could not be read.
        others: What else it was under load, best first: it flapped, or stepped up late.
    """

    state: LinkState | None
    others: tuple[LinkState, ...] = ()


class LinkWatch:
    """Looks at one GPU's link time and again.

    Args:
        gpu: Which GPU.
        ask: Asks the NVML child for all links.
    """

    def __init__(self, gpu: GpuFacts, ask: Callable[[], LinkAnswer]) -> None:
        self._gpu = gpu
        self._ask = ask
        self._samples: list[LinkSample] = []

    def look(self) -> None:
        """Take one look. NVML may fail it: copies go on, and another look is taken later."""
        with contextlib.suppress(NoAnswerError):
            self._samples += [each for each in self._ask().samples if each.uuid == self._gpu.uuid]

    def watched(self) -> Watched:
        """Return what was seen."""
        return watched(self._gpu, self._samples)


def watched(gpu: GpuFacts, samples: list[LinkSample]) -> Watched:
    """Return what samples say about a link under load.

    Where no sample has a rate, the fastest state counts: copies did run, and a link only steps down
    when it idles.
    """
    seen = [(_state_of(sample), sample) for sample in samples if not sample.link_changed]
    told = [(state, sample) for state, sample in seen if state is not None]
    loaded = Counter(state for state, sample in told if _is_busy(gpu, state, sample))
    if loaded:
        ranked = [state for state, _ in loaded.most_common()]
        return Watched(ranked[0], tuple(sorted(ranked[1:], reverse=True)))
    return Watched(max((state for state, _ in told), default=None))


def is_below_full(gpu: GpuFacts, state: LinkState) -> bool:
    """Return whether a link under load is slower or narrower than card and slot allow."""
    return state.generation < (gpu.max_generation or 0) or state.width < (gpu.max_width or 0)


def _state_of(sample: LinkSample) -> LinkState | None:
    if not sample.generation or not sample.width:
        return None
    return LinkState(sample.generation, sample.width)


def _is_busy(gpu: GpuFacts, state: LinkState, sample: LinkSample) -> bool:
    rate = max(sample.rx.bytes_per_second or 0.0, sample.tx.bytes_per_second or 0.0)
    return is_loaded(rate, state, LinkState(gpu.max_generation or 0, gpu.max_width or 0))
