"""The two lines that a tap ever logs; from its own thread, never in line."""

from __future__ import annotations

import logging
from collections.abc import Sequence

# A child of vLLM's own logger: any other name has no handler in an API server.
_LOGGER = logging.getLogger("vllm.stallscope_vllm")


def say_start(version: str, paths: Sequence[str]) -> None:
    """Say that the tap runs and where it sends."""
    _LOGGER.info("stallscope tap %s: sends timings to %s", version, " or ".join(paths))


def say_disabled(errors: int) -> None:
    """Say that the tap gave up."""
    _LOGGER.warning(
        "stallscope tap: switched itself off after %d errors of its own; the engine is not "
        "affected. Is this vLLM newer than the tap?",
        errors,
    )
