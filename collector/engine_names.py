"""The kinds of engine and, but for vLLM's, their names, old and new, as data.

SGLang 0.3 to 0.5: sglang/srt/metrics/collector.py. TGI: router/src/server.rs. llama.cpp:
tools/server. TensorRT-LLM: tensorrt_llm/metrics/collector.py and the PyTorch server
(TensorRT-LLM#5560). Triton: server metrics.md and tensorrtllm_backend.
"""

from __future__ import annotations

from collections.abc import Iterable

from collector.edges.prompage import Series
from collector.engine_aliases import Alias, EngineKind, Role, counters, gauges, histograms
from collector.engine_names_vllm import VLLM
from stallscope.units import US_PER_MS

_SGLANG = (
    *gauges(
        Role.COUNT,
        {
            "running": ["sglang:num_running_reqs", "sglang:num_requests_running"],
            "waiting": [
                "sglang:num_queue_reqs",
                "sglang:queue_req",
                "sglang:num_requests_waiting",
            ],
        },
    ),
    *gauges(
        Role.RATIO,
        {
            "kv_usage_ratio": ["sglang:token_usage"],
            "hit_reported_ratio": ["sglang:cache_hit_rate"],
        },
    ),
    *counters(
        {
            "prompt_tokens": ["sglang:prompt_tokens_total"],
            "generation_tokens": ["sglang:generation_tokens_total"],
            "preemptions": ["sglang:num_retracted_requests_total"],
            "requests_abort": ["sglang:num_aborted_requests_total"],
            "requests_all": ["sglang:num_requests_total", "sglang:request_success_total"],
            # every prompt token is looked up in the radix cache
            "prefix_queries": ["sglang:prompt_tokens_total"],
            "prefix_hits": [
                "sglang:cached_tokens_total{cache_source=device}",
                "sglang:cached_tokens_total",
            ],
            "cached_device": ["sglang:cached_tokens_total{cache_source=device}"],
            "cached_host": ["sglang:cached_tokens_total{cache_source=host}"],
            "cached_disk": ["sglang:cached_tokens_total{cache_source=storage_*}"],
            "cached_all": ["sglang:cached_tokens_total"],
            "transfer_failures": ["sglang:num_transfer_failed_reqs_total"],
        }
    ),
    *histograms(
        {
            "ttft_us": ["sglang:time_to_first_token_seconds"],
            "itl_us": [
                "sglang:inter_token_latency_seconds",
                "sglang:time_per_output_token_seconds",
            ],
            "e2e_us": ["sglang:e2e_request_latency_seconds"],
            "queue_us": ["sglang:queue_time_seconds", "sglang:waiting_request_latency_seconds"],
            "decode_us": ["sglang:decode_request_latency_seconds"],
            "request_prompt_tokens": [
                "sglang:prompt_tokens_histogram",
                "sglang:request_prompt_tokens",
            ],
            "request_generation_tokens": [
                "sglang:generation_tokens_histogram",
                "sglang:request_generation_tokens",
            ],
        }
    ),
)

_TRTLLM = (
    *gauges(
        Role.COUNT,
        {
            "running": ["trtllm:num_requests_running", "pytrtllm:num_requests_running"],
            "waiting": ["trtllm:num_requests_waiting", "pytrtllm:num_requests_waiting"],
        },
    ),
    *gauges(
        Role.RATIO,
        {
            "kv_usage_ratio": ["trtllm:kv_cache_utilization"],
            "cpu_kv_usage_ratio": ["trtllm:kv_cache_host_utilization"],
            "hit_reported_ratio": ["trtllm:kv_cache_hit_rate"],
        },
    ),
    *counters(
        {
            "prompt_tokens": ["trtllm:prompt_tokens_total", "pytrtllm:prompt_tokens_total"],
            "generation_tokens": [
                "trtllm:generation_tokens_total",
                "pytrtllm:generation_tokens_total",
            ],
            "requests_stop": ["trtllm:request_success_total{finished_reason=stop}"],
            "requests_length": ["trtllm:request_success_total{finished_reason=length}"],
            "requests_abort": ["pytrtllm:request_cancelled_total"],
            "requests_error": ["trtllm:request_error_total", "pytrtllm:request_failed_total"],
            "requests_all": ["trtllm:request_success_total", "pytrtllm:request_completed_total"],
            "cached_all": [
                "trtllm:prompt_cache_hit_tokens_total",
                "trtllm:prompt_cached_tokens_total",
            ],
            "spec_draft_tokens": ["trtllm:spec_decode_num_draft_tokens_total"],
            "spec_accepted_tokens": ["trtllm:spec_decode_num_accepted_tokens_total"],
            "load_bytes": ["trtllm:kv_cache_onboard_bytes_total"],
            "store_bytes": ["trtllm:kv_cache_offload_bytes_total"],
        }
    ),
    *histograms(
        {
            "ttft_us": ["trtllm:time_to_first_token_seconds"],
            "tpot_us": ["trtllm:time_per_output_token_seconds"],  # a mean per request
            "e2e_us": ["trtllm:e2e_request_latency_seconds"],
            "queue_us": ["trtllm:request_queue_time_seconds"],
            "inference_us": ["trtllm:request_inference_time_seconds"],
            "prefill_us": ["trtllm:request_prefill_time_seconds"],
            "decode_us": ["trtllm:request_decode_time_seconds"],
        }
    ),
)

_TRITON = (
    *gauges(
        Role.COUNT,
        {
            "running": ["nv_trt_llm_request_metrics{request_type=scheduled}"],
            "waiting": [
                "nv_trt_llm_request_metrics{request_type=waiting}",
                "nv_inference_pending_request_count",
            ],
        },
    ),
    *gauges(
        Role.RATIO,
        # one family, many quantities: the label tells blocks from shares
        {"kv_usage_ratio": ["nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}"]},
    ),
    *counters(
        {
            "requests_error": ["nv_inference_request_failure"],
            "requests_all": ["nv_inference_request_success + nv_inference_request_failure"],
        }
    ),
    Alias("ttft_us", Role.BUCKET, ("nv_inference_first_response_histogram_ms",), US_PER_MS),
)

_TGI = (
    *gauges(Role.COUNT, {"running": ["tgi_batch_current_size"], "waiting": ["tgi_queue_size"]}),
    *counters(
        {
            "prompt_tokens": ["tgi_request_input_length_sum"],
            "generation_tokens": ["tgi_request_generated_tokens_sum"],
            "requests_error": ["tgi_request_failure"],
            "requests_all": ["tgi_request_success + tgi_request_failure"],
        }
    ),
    *histograms(
        {
            "tpot_us": ["tgi_request_mean_time_per_token_duration"],
            "e2e_us": ["tgi_request_duration"],
            "queue_us": ["tgi_request_queue_duration"],
            "inference_us": ["tgi_request_inference_duration"],
            "request_prompt_tokens": ["tgi_request_input_length"],
            "request_generation_tokens": ["tgi_request_generated_tokens"],
        }
    ),
)

_LLAMACPP = (
    *gauges(
        Role.COUNT,
        {"running": ["llamacpp:requests_processing"], "waiting": ["llamacpp:requests_deferred"]},
    ),
    *gauges(Role.RATIO, {"kv_usage_ratio": ["llamacpp:kv_cache_usage_ratio"]}),
    *counters(
        {
            "prompt_tokens": ["llamacpp:prompt_tokens_total"],
            "generation_tokens": ["llamacpp:tokens_predicted_total"],
            "spec_draft_tokens": ["llamacpp:tokens_drafted_total"],
            "spec_accepted_tokens": [
                "llamacpp:tokens_drafted_accepted_total",
                "llamacpp:spec_decode_num_accepted_tokens_total",
            ],
        }
    ),
)

KINDS: tuple[EngineKind, ...] = (
    EngineKind(
        name="vllm",
        prefixes=("vllm:",),
        aliases=VLLM,
        rank_labels=("engine",),
        replica_labels=frozenset({"worker_id", "role"}),  # LMCache inside vLLM, one per TP rank
        config=frozenset({"vllm:cache_config_info"}),
    ),
    EngineKind(
        name="sglang",
        prefixes=("sglang:",),
        aliases=_SGLANG,
        rank_labels=("dp_rank",),
        model_labels=("model_name", "name"),  # ``name`` in 0.3
        # pid changes at every restart and is no identity (aibrix#1614)
        replica_labels=frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"}),
        config=frozenset({"sglang:cache_config_info"}),
    ),
    EngineKind(name="trtllm", prefixes=("trtllm:", "pytrtllm:"), aliases=_TRTLLM),
    EngineKind(
        name="triton",
        prefixes=("nv_inference_", "nv_trt_llm_"),
        aliases=_TRITON,
        model_labels=("model",),
        replica_labels=frozenset({"model"}),
        # one request is counted by every step of the ensemble (tensorrtllm_backend#49)
        pipeline=frozenset(
            {"ensemble", "preprocessing", "postprocessing", "tensorrt_llm", "tensorrt_llm_bls"}
        ),
    ),
    EngineKind(name="tgi", prefixes=("tgi_",), aliases=_TGI, model_labels=()),
    EngineKind(name="llamacpp", prefixes=("llamacpp:",), aliases=_LLAMACPP, model_labels=()),
)
"""Every kind we read. Of several on one page the first wins: Triton serves vLLM's names too."""


def detect_kind(page: Iterable[Series]) -> EngineKind | None:
    """Return the kind of engine whose series stand on a page, or None when there is none."""
    seen = {kind.name for series in page for kind in KINDS if kind.owns(series)}
    return next((kind for kind in KINDS if kind.name in seen), None)
