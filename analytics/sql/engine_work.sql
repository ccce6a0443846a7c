-- engine_work: what an engine did per window, from its steps.
-- Arguments:
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   step_us      Length of a window; NULL for one window over the whole range.
--   only_engine  An engine id, or NULL for all.
-- Columns:
--   wall_us, time       Begin of the window (UTC).
--   engine              Engine id.
--   steps               Steps in the window; a window without any has no row.
--   outputs             Outputs that had a gap.
--   itl_mean_us         Mean gap of an output; NULL when there was none.
--   itl_max_us          The longest.
--   generation_tokens   Tokens generated; like the others NULL where nothing counts it.
--   prefill_tokens      Prompt tokens computed.
--   preempted           Requests preempted.
--   load_bytes          Bytes of KV loads (H2D) booked; store_bytes is that of stores (D2H).
--   running_max         Most requests running; waiting_max is the most waiting.
--   kv_usage_max_ratio  Fullest KV cache.
CREATE OR REPLACE MACRO engine_work(
    since_us, until_us, step_us := NULL, only_engine := NULL
) AS TABLE
WITH step AS (
    SELECT
        *,
        CASE
            WHEN step_us IS NULL THEN CAST(since_us AS BIGINT)
            ELSE wall_us - wall_us % step_us
        END AS begin_us
    FROM engine_step
    WHERE wall_us >= since_us AND wall_us < until_us
      AND (only_engine IS NULL OR engine = only_engine)
)
SELECT
    begin_us AS wall_us, make_timestamp(begin_us) AS time, engine,
    count(*) FILTER (outlier IS DISTINCT FROM true) AS steps,
    CAST(sum(outputs) FILTER (itl_us IS NOT NULL) AS BIGINT) AS outputs,
    sum(CAST(itl_us AS BIGINT) * outputs)
        / nullif(sum(outputs) FILTER (itl_us IS NOT NULL), 0) AS itl_mean_us,
    max(itl_us) AS itl_max_us,
    CAST(sum(generation_tokens) AS BIGINT) AS generation_tokens,
    CAST(sum(prefill_tokens) AS BIGINT) AS prefill_tokens,
    CAST(sum(preempted) AS BIGINT) AS preempted,
    CAST(sum(load_bytes) AS BIGINT) AS load_bytes, CAST(sum(store_bytes) AS BIGINT) AS store_bytes,
    max(running) AS running_max, max(waiting) AS waiting_max,
    max(kv_usage_ratio) AS kv_usage_max_ratio
FROM step
GROUP BY ALL
ORDER BY engine, begin_us;
