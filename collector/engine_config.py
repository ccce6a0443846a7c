"""An engine's configuration as its page tells it: its hash, what changed, and what is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

_MEASURED = frozenset(
    {
        "num_gpu_blocks",
        "num_cpu_blocks",
        "kv_cache_size_tokens",
        "kv_cache_max_concurrency",
    }
)
"""What the engine works out at start from free memory: it differs between starts of one
configuration and is no part of it."""

STORED = (
    "block_size",
    "cache_dtype",
    "cpu_offload_gb",
    "enable_prefix_caching",
    "gpu_memory_utilization",
    "kv_cache_max_concurrency",
    "kv_cache_memory_bytes",
    "kv_cache_size_tokens",
    "kv_offloading_backend",
    "kv_offloading_size",
    "num_cpu_blocks",
    "num_gpu_blocks",
    "num_gpu_blocks_override",
    "page_size",
    "prefix_caching_hash_algo",
    "sliding_window",
    "swap_space_bytes",
)
"""Settings that go into the lake; all others only enter the hash."""

_HASH_LENGTH = 12


def hash_config(config: Mapping[str, str]) -> str | None:
    """Return a short hash of what a person configured, or None where the page shows nothing."""
    chosen = sorted((name, value) for name, value in config.items() if name not in _MEASURED)
    if not chosen:
        return None
    text = "\n".join(f"{name}={value}" for name, value in chosen)
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]


def describe_difference(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[str, str] | None:
    """Return the settings that differ, as they were and as they are; None when none do."""
    names = sorted(
        name
        for name in before.keys() | after.keys()
        if name not in _MEASURED and before.get(name) != after.get(name)
    )
    if not names:
        return None
    old = ", ".join(f"{name}={before.get(name, 'not shown')}" for name in names)
    new = ", ".join(f"{name}={after.get(name, 'not shown')}" for name in names)
    return old, new


def stored_settings(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that may be kept in the lake."""
    return {name: config[name] for name in STORED if name in config}
