"""Whether a link is at work, and whether it then is slower or narrower than it could be.

An idle link steps down to save power (NVIDIA/open-gpu-kernel-modules#731): that is no fault, and
was reported as one (janhq/jan#183, Syllo/nvtop#6). A link stuck under load is one, and went unseen
for hours (local-inference-lab/rtx6kpro#88).
"""

from __future__ import annotations

from collector.link_capacity import LinkState

_LOADED_RATIO = 0.05  # of what the link could carry at its highest generation
_WORKING_RATIO = 0.5  # of what it carries as it is
_BUSY_RATIO = 0.6
_SAMPLES = 3


def is_loaded(bytes_per_second: float, now: LinkState, best: LinkState) -> bool:
    """Return whether a link is at work, so that its state means something.

    A generation 6 link that is stuck at generation 1 never carries 5 % of what it should: so one
    that is half full as it is counts as loaded, too.

    Args:
        bytes_per_second: The busier direction.
        now: The link as it is.
        best: The same lanes at the highest generation.
    """
    return bytes_per_second > min(
        _LOADED_RATIO * (best.raw or 0.0), _WORKING_RATIO * (now.raw or 0.0)
    )


def are_both_busy(rx_saturation: float, tx_saturation: float) -> bool:
    """Return whether both directions carry so much that each slows the other down."""
    return min(rx_saturation, tx_saturation) > _BUSY_RATIO


class DowntrainJudge:
    """Judges one link over time."""

    def __init__(self) -> None:
        self._widest = 0
        self._degraded = 0

    def see(self, width: int) -> None:
        """Note a width: what a link once had, it can have."""
        self._widest = max(self._widest, width)

    def rest(self) -> None:
        """Note a sample that tells nothing: the link was idle, or nobody knows."""
        self._degraded = 0

    def judge(self, now: LinkState, max_generation: int, full_width: int | None) -> bool | None:
        """Return whether a link under load is slower or narrower than it could be.

        Args:
            now: The link as it is.
            max_generation: Highest generation of both its ends together.
            full_width: Most lanes of both its ends together; None when only one end is known. Then
                the width counts if the link was wider before: the highest width by NVML is wrong
                on cards that are wired narrower (T4, A10G, L40S: 16 lanes of which 8 exist).

        Returns:
            None until three samples in a row say so.
        """
        full = self._widest if full_width is None else full_width
        if now.generation >= max_generation and now.width >= full:
            self._degraded = 0
            return False
        self._degraded += 1
        return True if self._degraded >= _SAMPLES else None
