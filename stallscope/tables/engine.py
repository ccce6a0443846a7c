"""Signals of the engine: scrapes, histograms, steps, token gaps, requests, copies."""

from __future__ import annotations

from stallscope.columns import (
    ENGINE,
    MONO,
    WALL,
    WINDOW,
    Cadence,
    Column,
    Kind,
    Metric,
    Retention,
    Role,
    Table,
    fixed,
    gauge,
)


def _counter(name: str, unit: str, meaning: str, metric: str = "") -> tuple[Column, Column]:
    """Return a counter's two columns: the total as exposed, and its growth in the window."""
    return (
        gauge(
            f"{name}_total",
            Kind.I64,
            unit,
            f"{meaning}, total as the engine exposes it.",
            Metric(metric, kind="counter") if metric else None,
        ),
        gauge(
            f"{name}_delta",
            Kind.I64,
            unit,
            f"{meaning}, growth in the window; after a restart counted from zero.",
        ),
    )


ENGINE_COUNTERS: tuple[tuple[str, str, str], ...] = (
    ("prompt_tokens", "tokens", "Prompt tokens processed"),
    ("generation_tokens", "tokens", "Tokens generated"),
    ("preemptions", "count", "Preemptions"),
    ("requests_stop", "count", "Requests finished by a stop token"),
    ("requests_length", "count", "Requests finished by their length limit"),
    ("requests_abort", "count", "Requests aborted"),
    ("requests_error", "count", "Requests failed"),
    ("requests_repetition", "count", "Requests stopped for repeating themselves"),
    ("requests_all", "count", "Requests finished, all reasons together"),
    ("admission_rejections", "count", "Requests refused at the door"),
    ("prefix_queries", "tokens", "Prompt tokens looked up in the prefix cache on the GPU"),
    ("prefix_hits", "tokens", "Prompt tokens found in the prefix cache on the GPU"),
    ("external_queries", "tokens", "Prompt tokens looked up through a KV connector"),
    ("external_hits", "tokens", "Prompt tokens found through a KV connector"),
    ("cached_device", "tokens", "Prompt tokens served from KV on the GPU"),
    ("cached_host", "tokens", "Prompt tokens served from KV in host memory"),
    ("cached_disk", "tokens", "Prompt tokens served from KV on disk"),
    ("cached_p2p", "tokens", "Prompt tokens served from KV of a peer"),
    ("cached_external", "tokens", "Prompt tokens served from KV outside, tier not named"),
    ("cached_all", "tokens", "Prompt tokens served from any KV tier"),
    ("source_compute", "tokens", "Prompt tokens computed here"),
    ("source_local_hit", "tokens", "Prompt tokens from the local cache"),
    ("source_external", "tokens", "Prompt tokens from an external KV transfer"),
    ("spec_drafts", "count", "Speculative drafts"),
    ("spec_draft_tokens", "tokens", "Speculative tokens drafted"),
    ("spec_accepted_tokens", "tokens", "Speculative tokens accepted"),
    ("load_bytes", "bytes", "Bytes loaded by the KV connector (H2D)"),
    ("load_time_us", "us", "Service time of loads, summed over ranks, no queueing in it"),
    ("store_bytes", "bytes", "Bytes stored by the KV connector (D2H)"),
    ("store_time_us", "us", "Service time of stores, summed over ranks, no queueing in it"),
    ("tier_read_bytes", "bytes", "Bytes read from the secondary tier"),
    ("tier_read_time_us", "us", "Time of secondary-tier reads, summed over parallel workers"),
    ("tier_write_bytes", "bytes", "Bytes written to the secondary tier"),
    ("tier_write_time_us", "us", "Time of secondary-tier writes, summed over parallel workers"),
    ("load_blocks", "count", "Blocks loaded by the simple KV connector, which counts no bytes"),
    ("transfer_failures", "count", "KV transfers failed"),
)
"""Counters of engine_metrics as (name, unit, meaning)."""

_PUBLISHED = {
    "prompt_tokens": "stallscope_engine_prompt_tokens_total",
    "generation_tokens": "stallscope_engine_generation_tokens_total",
    "preemptions": "stallscope_engine_preemptions_total",
}

ENGINE_METRICS = Table(
    name="engine_metrics",
    role=Role.SIGNAL,
    meaning="One row per engine and scrape of its /metrics: gauges at that moment, counters as "
    "exposed and as growth since the scrape before. NULL: this engine version does not offer it.",
    columns=(
        WALL,
        MONO,
        ENGINE,
        WINDOW,
        fixed("scrape_us", Kind.U32, "us", "How long the scrape took, request to last byte."),
        fixed("restarted", Kind.BOOL, "-", "The engine restarted since the scrape before."),
        fixed("partial", Kind.BOOL, "-", "The page was cut off; its last line was dropped."),
        fixed("rejected_lines", Kind.U32, "count", "Lines of the page that could not be read."),
        fixed("duplicates", Kind.U32, "count", "Series that stood more than once in the page."),
        gauge(
            "flags",
            Kind.TEXT,
            "-",
            "Suspicious facts, comma separated: gauges_stale, hits_exceed_queries, "
            "hits_with_preemption, usage_above_one, identity_unknown, counter_fell, "
            "other_process, shared_series, data_old, not_cumulative:<family>.",
        ),
        gauge(
            "running",
            Kind.F32,
            "count",
            "Requests running.",
            Metric("stallscope_engine_requests", labels=(("state", "running"),)),
        ),
        gauge(
            "waiting",
            Kind.F32,
            "count",
            "Requests waiting.",
            Metric("stallscope_engine_requests", labels=(("state", "waiting"),)),
        ),
        gauge("waiting_capacity", Kind.F32, "count", "Waiting for capacity."),
        gauge("waiting_deferred", Kind.F32, "count", "Waiting, deferred (KV fetch, grammar)."),
        gauge("swapped", Kind.F32, "count", "Requests swapped out (vLLM V0)."),
        gauge(
            "kv_usage_ratio",
            Kind.F32,
            "ratio",
            "Share of the KV cache on the GPU in use.",
            Metric("stallscope_kv_usage_ratio"),
        ),
        gauge("cpu_kv_usage_ratio", Kind.F32, "ratio", "Share of the CPU KV cache in use (V0)."),
        gauge(
            "hit_reported_ratio",
            Kind.F32,
            "ratio",
            "Hit rate as the engine's own gauge claims it; never used for a figure.",
        ),
        gauge("fetch_waiting", Kind.F32, "count", "Requests whose KV fetch has not started."),
        gauge("fetch_in_progress", Kind.F32, "count", "Requests whose KV is being fetched."),
        gauge("fetch_completed", Kind.F32, "count", "Requests whose KV is there, not scheduled."),
        gauge(
            "offload_read_usage_ratio",
            Kind.F32,
            "ratio",
            "Share of the CPU tier pinned by active loads.",
        ),
        gauge(
            "offload_write_usage_ratio",
            Kind.F32,
            "ratio",
            "Share of the CPU tier pinned by active stores.",
        ),
        gauge("pending_store_blocks", Kind.F32, "count", "Blocks waiting to be stored."),
        gauge("active_promotions", Kind.F32, "count", "Promotions from the secondary tier."),
        *(
            column
            for name, unit, meaning in ENGINE_COUNTERS
            for column in _counter(name, unit, meaning, _PUBLISHED.get(name, ""))
        ),
    ),
    key=("engine",),
    cadence=Cadence.LIVE,
    gauges=("running", "waiting", "kv_usage_ratio", "scrape_us"),
    sums=tuple(f"{name}_delta" for name, _, _ in ENGINE_COUNTERS),
)

ENGINE_HISTOGRAM = Table(
    name="engine_histogram",
    role=Role.SIGNAL,
    meaning="One row per engine, scrape and histogram family in which something was observed: the "
    "growth of each bucket since the scrape before. View engine_histogram_bucket has one row per "
    "bucket.",
    columns=(
        WALL,
        MONO,
        ENGINE,
        WINDOW,
        fixed(
            "family",
            Kind.TEXT,
            "-",
            "What was observed, unit in the name: ttft_us, itl_us, tpot_us, e2e_us, queue_us, "
            "inference_us, prefill_us, decode_us, iteration_tokens, request_prompt_tokens, "
            "request_generation_tokens, load_size_bytes, store_size_bytes, lookup_sync_us, "
            "lookup_async_us, promotion_us, nixl_transfer_us, nixl_transfer_bytes.",
        ),
        fixed("observations", Kind.I64, "count", "Observations in the window."),
        gauge("sum", Kind.I64, "family", "Their sum, in the family's unit."),
        fixed(
            "bounds",
            Kind.I64_LIST,
            "family",
            "Inclusive upper bounds in the family's unit, ascending; +Inf is left out.",
        ),
        fixed(
            "counts",
            Kind.U32_LIST,
            "count",
            "Observations per bucket, not cumulative; one longer than bounds, last is +Inf.",
        ),
        gauge(
            "flags",
            Kind.TEXT,
            "-",
            "Suspicious facts, comma separated: all_in_lowest, all_in_one, repaired_monotony, "
            "mean_above_top, zero_sum, counter_fell, mixed_bounds, born_in_window.",
        ),
    ),
    key=("engine", "family"),
    cadence=Cadence.LIVE,
)

ENGINE_STEP = Table(
    name="engine_step",
    role=Role.SIGNAL,
    meaning="One row per engine step, from the stat-logger plugin: all gaps of one step are one "
    "number (vLLM v1/metrics/stats.py). Requests that resumed after a preemption have a gap of "
    "their own: for them a further row with outlier = true and no counters.",
    columns=(
        WALL,
        MONO,
        ENGINE,
        fixed("engine_mono_us", Kind.I64, "us", "The step's time on the engine's clock."),
        gauge("itl_us", Kind.U32, "us", "Gap of every request decoding in this step."),
        fixed("outputs", Kind.U32, "count", "Requests that got an output with that gap."),
        gauge(
            "outlier",
            Kind.BOOL,
            "-",
            "These outputs had another gap than the others of the step.",
            since=2,
        ),
        gauge("step_us", Kind.U32, "us", "Time since the engine's step before.", since=2),
        gauge("generation_tokens", Kind.U32, "tokens", "Tokens generated in the step."),
        gauge("prefill_tokens", Kind.U32, "tokens", "Prompt tokens computed in the step."),
        gauge(
            "prefill_requests",
            Kind.U32,
            "count",
            "Requests that got their first token in the step.",
            since=2,
        ),
        gauge("running", Kind.U32, "count", "Requests running."),
        gauge("waiting", Kind.U32, "count", "Requests waiting."),
        gauge("preempted", Kind.U32, "count", "Requests preempted in the step."),
        gauge("kv_usage_ratio", Kind.F32, "ratio", "Share of the KV cache in use."),
        gauge("load_bytes", Kind.I64, "bytes", "Bytes of loads (H2D) booked in the step."),
        gauge("load_time_us", Kind.U32, "us", "Their service time."),
        gauge("store_bytes", Kind.I64, "bytes", "Bytes of stores (D2H) booked in the step."),
        gauge("store_time_us", Kind.U32, "us", "Their service time."),
        gauge("load_jobs", Kind.U32, "count", "Loads booked in the step.", since=2),
        gauge("store_jobs", Kind.U32, "count", "Stores booked in the step.", since=2),
        gauge("prefix_queries", Kind.U32, "tokens", "Tokens looked up on the GPU.", since=2),
        gauge("prefix_hits", Kind.U32, "tokens", "Tokens found on the GPU.", since=2),
        gauge("external_queries", Kind.U32, "tokens", "Tokens looked up off the GPU.", since=2),
        gauge("external_hits", Kind.U32, "tokens", "Tokens found off the GPU.", since=2),
        gauge("finished", Kind.U32, "count", "Requests finished in the step.", since=2),
        gauge("spec_drafts", Kind.U32, "count", "Drafts of speculative decoding.", since=2),
        gauge("spec_accepted_tokens", Kind.U32, "tokens", "Draft tokens accepted.", since=2),
    ),
    key=("engine",),
    cadence=Cadence.LIVE,
    time_ordered=True,
)

FIRST_TOKEN = Table(
    name="first_token",
    role=Role.SIGNAL,
    meaning="One row per first token of a request, from the stat-logger plugin.",
    columns=(
        WALL,
        ENGINE,
        fixed("ttft_us", Kind.I64, "us", "Arrival at the API server to first token, queue inside."),
    ),
    key=("engine",),
    cadence=Cadence.LIVE,
    time_ordered=True,
)

TOKEN_GAP = Table(
    name="token_gap",
    role=Role.SIGNAL,
    meaning="One row per request and chunk of its answer: the pause before it.",
    columns=(
        WALL,
        ENGINE,
        fixed("request", Kind.U32, "-", "Request id, see table request_name."),
        fixed("chunk_index", Kind.U32, "-", "Position of the chunk in the answer, from 0."),
        gauge("itl_us", Kind.U32, "us", "Pause since the chunk before; NULL for the first."),
        gauge("tokens_in_output", Kind.U8, "tokens", "Tokens in the chunk; NULL when unknown."),
    ),
    key=("engine",),
    cadence=Cadence.LIVE,
    # A step gives every running request its next chunk after the same pause, so from row to row
    # all three hardly move: 3.3 B a row on 8 engines instead of 6.6 as dictionaries in time order.
    deltas=("request", "chunk_index", "itl_us"),
)

REQUEST = Table(
    name="request",
    role=Role.SIGNAL,
    meaning="One row per finished request.",
    columns=(
        WALL,
        MONO,
        ENGINE,
        fixed("request", Kind.U32, "-", "Request id, see table request_name."),
        gauge("arrival_wall_us", Kind.I64, "us", "When it arrived: UTC since 1970.", since=2),
        gauge("route", Kind.TEXT, "-", "Model route."),
        gauge("prompt_tokens", Kind.U32, "tokens", "Prompt length."),
        gauge("output_tokens", Kind.U32, "tokens", "Answer length."),
        gauge("context_class", Kind.TEXT, "-", "Context-length class."),
        gauge("ttft_us", Kind.I64, "us", "Arrival to first token, queue time inside."),
        gauge("queue_us", Kind.I64, "us", "Time in the engine's queue."),
        gauge("prefill_us", Kind.I64, "us", "Time in prefill."),
        gauge("decode_us", Kind.I64, "us", "Time in decode."),
        gauge("inference_us", Kind.I64, "us", "Time in prefill and decode.", since=2),
        gauge("e2e_us", Kind.I64, "us", "Arrival to last token."),
        gauge("tpot_us", Kind.F32, "us", "Mean time per output token after the first."),
        gauge("preemptions", Kind.U32, "count", "Times it was preempted."),
        gauge("cached_tokens", Kind.U32, "tokens", "Prompt tokens that were not computed."),
        gauge("chunks", Kind.U32, "count", "Chunks of the answer's body.", since=2),
        gauge("status", Kind.U16, "-", "HTTP status of the answer.", since=2),
        gauge("finish", Kind.TEXT, "-", "stop, length, abort, error or repetition."),
        fixed("level", Kind.TEXT, "-", "Where it was measured: step, gap or trace."),
    ),
    key=("engine",),
    time_ordered=True,
)

COPY_EVENT = Table(
    name="copy_event",
    role=Role.SIGNAL,
    meaning="One row per copy between the GPU and another tier.",
    columns=(
        WALL,
        MONO,
        ENGINE,
        gauge("device", Kind.U16, "-", "GPU, see table device."),
        fixed("direction", Kind.TEXT, "-", "rx (H2D, load) or tx (D2H, store)."),
        gauge("tier", Kind.TEXT, "-", "host, disk, p2p or external."),
        fixed("bytes", Kind.I64, "bytes", "Bytes copied."),
        gauge("enqueue_mono_us", Kind.I64, "us", "When it was queued."),
        gauge("complete_mono_us", Kind.I64, "us", "When it was complete."),
        gauge("service_us", Kind.U32, "us", "Time on the wire, queueing left out."),
    ),
    key=("engine",),
    time_ordered=True,
)

CHANGE_EVENT = Table(
    name="change_event",
    role=Role.SIGNAL,
    meaning="Something changed: an engine restarted or was reconfigured, a driver, kernel, device.",
    columns=(
        WALL,
        MONO,
        gauge("engine", Kind.U16, "-", "Engine it concerns, if any."),
        gauge("device", Kind.U16, "-", "Device it concerns, if any."),
        fixed(
            "kind",
            Kind.TEXT,
            "-",
            "engine_restarted, engine_version, engine_config, driver, "
            "kernel, device, calibration or note.",
        ),
        gauge("before", Kind.TEXT, "-", "What it was."),
        gauge("after", Kind.TEXT, "-", "What it is."),
        gauge("text", Kind.TEXT, "-", "A sentence for people."),
    ),
    cadence=Cadence.LIVE,
    retention=Retention.KEEP,
)

TABLES = (
    ENGINE_METRICS,
    ENGINE_HISTOGRAM,
    ENGINE_STEP,
    FIRST_TOKEN,
    TOKEN_GAP,
    REQUEST,
    COPY_EVENT,
    CHANGE_EVENT,
)
