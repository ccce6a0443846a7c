"""vLLM's names from V0 to 0.33 (vllm/v1/metrics/loggers.py, kv_connector/v1/*, v1/kv_offload/*)."""

from __future__ import annotations

from collector.engine_aliases import Role, counters, gauges, histograms

_FAILURES = (
    "vllm:nixl_num_failed_transfers_total"
    " + vllm:kv_offload_tiering_promotion_job_failures_total"
    " + vllm:kv_offload_tiering_cascade_job_failures_total"
    " + vllm:hf3fs_num_failed_load_total"
    " + vllm:hf3fs_num_failed_save_total"
)

VLLM = (
    *gauges(
        Role.COUNT,
        {
            "running": ["vllm:num_requests_running"],
            "waiting": ["vllm:num_requests_waiting"],
            "waiting_capacity": ["vllm:num_requests_waiting_by_reason{reason=capacity}"],
            "waiting_deferred": ["vllm:num_requests_waiting_by_reason{reason=deferred}"],
            "swapped": ["vllm:num_requests_swapped"],
            "fetch_waiting": ["vllm:num_requests_kv_fetch_by_stage{stage=waiting_to_start}"],
            "fetch_in_progress": ["vllm:num_requests_kv_fetch_by_stage{stage=in_progress}"],
            "fetch_completed": ["vllm:num_requests_kv_fetch_by_stage{stage=completed_waiting}"],
            "pending_store_blocks": ["vllm:simple_kv_offload_pending_store_blocks"],
            "active_promotions": ["vllm:kv_offload_tiering_active_promotion_jobs"],
        },
    ),
    *gauges(
        Role.RATIO,
        {
            # renamed in 0.9.2, hidden in 0.11, gone in 0.12 (vllm#18354, vllm#29330)
            "kv_usage_ratio": ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"],
            "cpu_kv_usage_ratio": ["vllm:cpu_cache_usage_perc"],
            "hit_reported_ratio": [
                "vllm:gpu_prefix_cache_hit_rate",
                "lmcache:retrieve_hit_rate",
                "lmcache:lookup_hit_rate",
            ],
            # with tiers the CPU tier is called primary and is the same thing
            "offload_read_usage_ratio": [
                "vllm:kv_offload_tiering_primary_read_usage_perc",
                "vllm:kv_offload_cpu_cache_read_usage_perc",
            ],
            "offload_write_usage_ratio": [
                "vllm:kv_offload_tiering_primary_write_usage_perc",
                "vllm:kv_offload_cpu_cache_write_usage_perc",
            ],
        },
    ),
    *counters(
        {
            "prompt_tokens": ["vllm:prompt_tokens_total"],
            "generation_tokens": ["vllm:generation_tokens_total"],
            "preemptions": ["vllm:num_preemptions_total"],
            "requests_stop": ["vllm:request_success_total{finished_reason=stop}"],
            "requests_length": ["vllm:request_success_total{finished_reason=length}"],
            "requests_abort": ["vllm:request_success_total{finished_reason=abort}"],
            "requests_error": ["vllm:request_success_total{finished_reason=error}"],
            "requests_repetition": ["vllm:request_success_total{finished_reason=repetition}"],
            "requests_all": ["vllm:request_success_total"],
            "admission_rejections": ["vllm:admission_rejections_total"],
            "prefix_queries": [
                "vllm:prefix_cache_queries_total",
                "vllm:gpu_prefix_cache_queries_total",
            ],
            "prefix_hits": ["vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"],
            # LMCache's own gauge may be stuck at 1 (LMCache#1260): hit rates come from its counters
            "external_queries": [
                "vllm:external_prefix_cache_queries_total",
                "lmcache:num_requested_tokens_total",
            ],
            "external_hits": [
                "vllm:external_prefix_cache_hits_total",
                "lmcache:num_hit_tokens_total",
            ],
            "cached_device": ["vllm:prompt_tokens_cached_by_source_total{source=device}"],
            "cached_host": ["vllm:prompt_tokens_cached_by_source_total{source=host}"],
            "cached_disk": ["vllm:prompt_tokens_cached_by_source_total{source=disk}"],
            "cached_p2p": ["vllm:prompt_tokens_cached_by_source_total{source=p2p}"],
            "cached_external": [
                "vllm:prompt_tokens_cached_by_source_total{source=external_unspecified}"
            ],
            "cached_all": ["vllm:prompt_tokens_cached_total"],
            "source_compute": ["vllm:prompt_tokens_by_source_total{source=local_compute}"],
            "source_local_hit": ["vllm:prompt_tokens_by_source_total{source=local_cache_hit}"],
            "source_external": ["vllm:prompt_tokens_by_source_total{source=external_kv_transfer}"],
            "spec_drafts": ["vllm:spec_decode_num_drafts_total"],
            "spec_draft_tokens": ["vllm:spec_decode_num_draft_tokens_total"],
            "spec_accepted_tokens": ["vllm:spec_decode_num_accepted_tokens_total"],
            # 0.24 renamed these and goes on to expose the same bytes under the old names (0.33)
            "load_bytes": [
                "vllm:kv_offload_load_bytes_total",
                "vllm:kv_offload_total_bytes_total{transfer_type=CPU_to_GPU}",
            ],
            "load_time_us": [
                "vllm:kv_offload_load_time_total",
                "vllm:kv_offload_total_time_total{transfer_type=CPU_to_GPU}",
            ],
            "store_bytes": [
                "vllm:kv_offload_store_bytes_total",
                "vllm:kv_offload_total_bytes_total{transfer_type=GPU_to_CPU}",
            ],
            "store_time_us": [
                "vllm:kv_offload_store_time_total",
                "vllm:kv_offload_total_time_total{transfer_type=GPU_to_CPU}",
            ],
            "tier_read_bytes": ["vllm:kv_offload_tiering_read_bytes_total"],
            "tier_read_time_us": ["vllm:kv_offload_tiering_read_time_total"],
            "tier_write_bytes": ["vllm:kv_offload_tiering_write_bytes_total"],
            "tier_write_time_us": ["vllm:kv_offload_tiering_write_time_total"],
            "load_blocks": ["vllm:simple_kv_offload_load_blocks_total"],
            "transfer_failures": [_FAILURES],
        }
    ),
    *histograms(
        {
            "ttft_us": ["vllm:time_to_first_token_seconds"],
            # request_time_per_output_token_seconds is a mean per request: tpot, never itl
            "itl_us": ["vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"],
            "tpot_us": ["vllm:request_time_per_output_token_seconds"],
            "e2e_us": ["vllm:e2e_request_latency_seconds"],
            "queue_us": ["vllm:request_queue_time_seconds", "vllm:time_in_queue_requests"],
            "inference_us": ["vllm:request_inference_time_seconds"],
            "prefill_us": ["vllm:request_prefill_time_seconds"],
            "decode_us": ["vllm:request_decode_time_seconds"],
            "iteration_tokens": ["vllm:iteration_tokens_total"],
            "request_prompt_tokens": ["vllm:request_prompt_tokens"],
            "request_generation_tokens": ["vllm:request_generation_tokens"],
            "load_size_bytes": [
                "vllm:kv_offload_load_size",
                "vllm:kv_offload_size{transfer_type=CPU_to_GPU}",
            ],
            "store_size_bytes": [
                "vllm:kv_offload_store_size",
                "vllm:kv_offload_size{transfer_type=GPU_to_CPU}",
            ],
            "lookup_sync_us": ["vllm:kv_offload_lookup_sync_delay_seconds"],
            "lookup_async_us": ["vllm:kv_offload_lookup_async_delay_seconds"],
            "promotion_us": ["vllm:kv_offload_tiering_promotion_latency_seconds"],
            "nixl_transfer_us": ["vllm:nixl_xfer_time_seconds"],
            "nixl_transfer_bytes": ["vllm:nixl_bytes_transferred"],
        }
    ),
)
