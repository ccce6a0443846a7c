"""What the engine itself says, read with the official parser: the oracle of the comparison."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

COUNTERS = {
    "prompt_tokens": "vllm:prompt_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "preemptions": "vllm:num_preemptions_total",
    "prefix_queries": "vllm:prefix_cache_queries_total",
    "prefix_hits": "vllm:prefix_cache_hits_total",
    "cached_all": "vllm:prompt_tokens_cached_total",
}
"""Column stem of engine_metrics to the engine's counter."""
FINISHED = "vllm:request_success_total"
FAMILIES = {
    "ttft_us": "vllm:time_to_first_token_seconds",
    "itl_us": "vllm:inter_token_latency_seconds",
    "tpot_us": "vllm:request_time_per_output_token_seconds",
    "e2e_us": "vllm:e2e_request_latency_seconds",
    "queue_us": "vllm:request_queue_time_seconds",
    "inference_us": "vllm:request_inference_time_seconds",
    "prefill_us": "vllm:request_prefill_time_seconds",
    "decode_us": "vllm:request_decode_time_seconds",
    "iteration_tokens": "vllm:iteration_tokens_total",
    "request_prompt_tokens": "vllm:request_prompt_tokens",
    "request_generation_tokens": "vllm:request_generation_tokens",
}
"""Family of engine_histogram to the engine's histogram."""


@dataclass(frozen=True, slots=True)
class OwnFigures:
    """The engine's figures at one moment.

    Attributes:
        counters: By column stem.
        buckets: By family: observations up to each bound, by the bound as text.
        in_flight: Requests running or waiting.
    """

    counters: Mapping[str, int] = field(default_factory=dict)
    buckets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    in_flight: int = 0


def parse_own_figures(page: str) -> OwnFigures:
    """Return the figures on a metrics page; those of several engines are added up."""
    samples = [
        sample
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name.startswith("vllm:") and not math.isnan(sample.value)
    ]
    plain: Counter[str] = Counter()
    finished: Counter[str] = Counter()
    buckets: dict[str, Counter[str]] = {family: Counter() for family in FAMILIES}
    names = {f"{name}_bucket": family for family, name in FAMILIES.items()}
    for sample in samples:
        if set(sample.labels) <= {"engine", "model_name"}:
            plain[sample.name] += round(sample.value)
        if sample.name == FINISHED:
            finished[f"requests_{sample.labels['finished_reason']}"] += round(sample.value)
        if sample.name in names:
            buckets[names[sample.name]][sample.labels["le"]] += round(sample.value)
    return OwnFigures(
        counters={
            **{stem: plain[name] for stem, name in COUNTERS.items() if name in plain},
            **finished,
        },
        buckets={family: dict(found) for family, found in buckets.items() if found},
        in_flight=plain["vllm:num_requests_running"] + plain["vllm:num_requests_waiting"],
    )


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return how much each figure grew."""
    return {name: value - before.get(name, 0) for name, value in after.items()}
