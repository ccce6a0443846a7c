-- _kv_tier: KV hits and lookups per engine and tier, added up per window.
-- Since vLLM 0.32 the engine counts cached prompt tokens by tier; before that only the prefix cache
-- on the GPU and the connector as a whole are told apart. One basis per tier, never both. Lookups
-- count only where hits were counted too, so that a scrape without the one spoils no ratio.
-- Arguments: as kv_hits; a step_us of 0 keeps every scrape apart.
-- Columns: wall_us, engine, tier, basis, hits, queries.
CREATE OR REPLACE MACRO _kv_tier(since_us, until_us, step_us, source, only_engine) AS TABLE
WITH added AS (
    SELECT
        CASE
            WHEN step_us IS NULL THEN CAST(since_us AS BIGINT)
            WHEN step_us = 0 THEN wall_us
            ELSE wall_us - wall_us % step_us
        END AS wall_us,
        engine,
        sum(cached_device_delta) AS device,
        sum(prompt_tokens_delta) FILTER (cached_device_delta IS NOT NULL) AS of_device,
        sum(cached_host_delta) AS host,
        sum(prompt_tokens_delta) FILTER (cached_host_delta IS NOT NULL) AS of_host,
        sum(cached_disk_delta) AS disk,
        sum(prompt_tokens_delta) FILTER (cached_disk_delta IS NOT NULL) AS of_disk,
        sum(cached_p2p_delta) AS p2p,
        sum(prompt_tokens_delta) FILTER (cached_p2p_delta IS NOT NULL) AS of_p2p,
        sum(cached_external_delta) AS external,
        sum(prompt_tokens_delta) FILTER (cached_external_delta IS NOT NULL) AS of_external,
        sum(prefix_hits_delta) AS prefix,
        sum(prefix_queries_delta) FILTER (prefix_hits_delta IS NOT NULL) AS of_prefix,
        sum(external_hits_delta) AS connector,
        sum(external_queries_delta) FILTER (external_hits_delta IS NOT NULL) AS of_connector
    FROM query_table(source)
    WHERE wall_us >= since_us AND wall_us < until_us
      AND (only_engine IS NULL OR engine = only_engine)
    GROUP BY ALL
), tier AS (
    SELECT wall_us, engine, unnest([
        {'tier': 'device', 'hits': device, 'queries': of_device, 'basis': 'prompt tokens'},
        {'tier': 'host', 'hits': host, 'queries': of_host, 'basis': 'prompt tokens'},
        {'tier': 'disk', 'hits': disk, 'queries': of_disk, 'basis': 'prompt tokens'},
        {'tier': 'p2p', 'hits': p2p, 'queries': of_p2p, 'basis': 'prompt tokens'},
        {'tier': 'external', 'hits': external, 'queries': of_external, 'basis': 'prompt tokens'},
        {'tier': 'device', 'hits': CASE WHEN device IS NULL THEN prefix END,
         'queries': of_prefix, 'basis': 'cache counters'},
        {'tier': 'external', 'hits': CASE WHEN external IS NULL THEN connector END,
         'queries': of_connector, 'basis': 'cache counters'}
    ]) AS t
    FROM added
)
SELECT
    wall_us, engine, t.tier AS tier, t.basis AS basis,
    CAST(t.hits AS BIGINT) AS hits, CAST(t.queries AS BIGINT) AS queries
FROM tier
WHERE t.hits IS NOT NULL;

-- kv_hits: KV hit rate per window, engine and tier, from the growth of counters and never from the
-- engine's own hit-rate gauge, which is known to stick (LMCache/LMCache#1260).
-- Arguments:
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   step_us      Length of a window; NULL for one window over the whole range.
--   source       'engine_metrics', or 'engine_metrics_1m' for hours and days.
--   only_engine  An engine id, or NULL for all.
-- Columns:
--   wall_us, time  Begin of the window (UTC).
--   engine         Engine id.
--   tier           device, host, disk, p2p or external; a tier that is not counted has no row.
--   hits           Prompt tokens found in that tier.
--   queries        Prompt tokens that could have been found.
--   hit_ratio      hits / queries; NULL when nothing was asked, 0 when nothing was found.
--   basis          'prompt tokens' (share of all prompt tokens) or 'cache counters' (share of the
--                  tokens looked up in that cache, the only count of older engines).
--   flag           'hits exceed queries' when the engine counted recomputed or retried tokens
--                  (vllm-project/vllm#25780, #43736), else NULL.
CREATE OR REPLACE MACRO kv_hits(
    since_us, until_us, step_us := NULL, source := 'engine_metrics', only_engine := NULL
) AS TABLE
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine, tier, hits, queries,
    hits / nullif(queries, 0) AS hit_ratio, basis,
    CASE WHEN hits > queries THEN 'hits exceed queries' END AS flag
FROM _kv_tier(since_us, until_us, step_us, source, only_engine)
ORDER BY engine, tier, wall_us;
